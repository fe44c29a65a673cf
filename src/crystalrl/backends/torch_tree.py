"""Sum trees in plain torch: the readable reference, used on CUDA without Triton.

torch costs time per call rather than per element. So a draw takes a running sum over the lowest level of at most TOP
nodes, searches it, and descends from there.
"""

from __future__ import annotations

import torch
from torch import Tensor

from crystalrl.backends.protocols import (
    BELOW_ONE,
    UNLABELLED,
    Gate,
    RandomStreams,
    Rule,
    SlotColumns,
    TreeTensors,
)
from crystalrl.backends.torch_writes import write_columns

ARITY = 64
"""Children of a node."""
TOP = 4096
"""Maximum number of nodes of the highest level: up to here a running sum costs less than one more level."""


class TorchTree:
    """`TreeOperations` on tensors of any device."""

    def __init__(self, tensors: TreeTensors) -> None:
        self.weight, self.label, self.sums, self.generation, self.offsets, self.slots = tensors
        lanes, self.strata, _ = self.sums.shape
        self._lane = torch.arange(lanes, device=self.weight.device)[:, None]

    def sample(
        self, streams: RandomStreams, stream: int, stratum: Tensor, count: Tensor, beta: Tensor, gate: Gate
    ) -> tuple[Tensor, Tensor, Tensor]:
        slots, share = self.draw(streams.uniform(stream, stratum.shape[1]), stratum)
        number = count.gather(1, stratum.long()) if self.strata > 1 else count
        weight = (share * number) ** -beta
        weight = (weight / weight.amax(-1, keepdim=True)).to(torch.float32) * gate.factor(slots)
        return slots, weight, self.generation.gather(1, slots)

    def draw(self, uniform: Tensor, stratum: Tensor) -> tuple[Tensor, Tensor]:
        lane, stratum = self._lane, stratum.long()  # torch would treat uint8 as a mask
        running = self.sums[:, :, self.offsets[-1] :].cumsum(-1)
        total = running[:, 0, -1:] if self.strata == 1 else running[lane, stratum, -1]
        node, rest = _locate(running, uniform * total, stratum, lane)
        row = lane * self.strata + stratum
        for offset in self.offsets[-2::-1]:
            child, rest = _choose(_children(self.sums, row, offset, node), rest)
            node = node * ARITY + child
        leaves = _children(self.weight, lane, 0, node)
        if self.strata > 1:
            leaves = leaves * (_children(self.label, lane, 0, node) == stratum[..., None])
        slots = node * ARITY + _choose(leaves.to(torch.float64), rest)[0]
        return slots, self.weight[lane, slots] / total

    def learn(self, slots: Tensor, ticket: Tensor, magnitude: Tensor, rule: Rule) -> None:
        at = slots.clamp_min(0)
        kept = (slots >= 0) & (self.generation.gather(1, at) == ticket)
        slots = torch.where(kept, slots, -1)
        base = rule.base(magnitude)
        label = self.label.gather(1, at) if self.strata > 1 else torch.zeros_like(at, dtype=torch.uint8)
        self.set(slots, rule.weight(label, base, at), label)
        torch.maximum(rule.max_priority, (base * kept).amax(-1), out=rule.max_priority)
        if rule.error.shape[1]:
            rule.error.scatter_(1, torch.where(kept, slots, rule.error.shape[1] - 1), magnitude)

    def set(self, slots: Tensor, weight: Tensor, label: Tensor) -> None:
        lane, kept = self._lane, slots >= 0
        slots = or_spare(slots, self.weight.shape[1])  # the spare slot keeps weight zero and no label
        self.weight[lane, slots] = weight * kept
        node = slots // ARITY
        leaves = _children(self.weight, lane, 0, node).to(torch.float64)
        if self.strata == 1:
            self.sums[lane, 0, node] = leaves.sum(-1)
        else:
            self.label[lane, slots] = label.masked_fill(~kept, UNLABELLED)
            labels = _children(self.label, lane, 0, node)
            for s in range(self.strata):
                self.sums[lane, s, node] = (leaves * (labels == s)).sum(-1)
        for below, offset in zip(self.offsets, self.offsets[1:], strict=False):
            node = node // ARITY
            for s in range(self.strata):
                children = _children(self.sums, lane * self.strata + s, below, node)
                self.sums[lane, s, offset + node] = children.sum(-1)

    def commit(self, slots: Tensor, rule: Rule, columns: SlotColumns | None, c: Tensor | None) -> None:
        label = torch.zeros_like(slots, dtype=torch.uint8)
        if columns is not None:
            label = write_columns(columns, slots, self.label, c)
        base = rule.max_priority[:, None].expand(slots.shape)
        self.set(slots, rule.weight(label, base, slots.clamp_min(0)), label)
        bump(self.generation, slots)

    def rebuild(self) -> None:
        for s in range(self.strata):
            mine = self.weight.to(torch.float64) * (self.label == s if self.strata > 1 else 1)
            nodes = mine.unflatten(1, (-1, ARITY)).sum(-1)
            for offset, end in zip(self.offsets, (*self.offsets[1:], None), strict=True):
                self.sums[:, s, offset : offset + nodes.shape[1]] = nodes
                if end is not None:
                    nodes = self.sums[:, s, offset:end].unflatten(1, (-1, ARITY)).sum(-1)


def or_spare(slots: Tensor, width: int) -> Tensor:
    """Slots, with the last one of `width` in place of negative ones."""
    return torch.where(slots >= 0, slots, width - 1)


def bump(generation: Tensor, slots: Tensor) -> None:
    """Increase the generation of slots int64[L, B]; a negative slot is skipped."""
    at = or_spare(slots, generation.shape[1])
    generation.scatter_add_(1, at, torch.ones_like(slots, dtype=torch.int32))


def _children(values: Tensor, row: Tensor, offset: int, node: Tensor) -> Tensor:
    """Children [L, B, arity] of nodes [L, B], each in its row of `values` [rows, …] at `offset`."""
    at = row * (values.shape[-1] // ARITY) + (offset // ARITY + node)
    return values.view(-1, ARITY).index_select(0, at.reshape(-1)).view(*at.shape, ARITY)


def _locate(running: Tensor, rest: Tensor, stratum: Tensor, lane: Tensor) -> tuple[Tensor, Tensor]:
    """Node of the highest level in whose interval `rest` [L, B] falls, and the remainder of `rest` in it.

    running float64[L, S, nodes]: running sums of that level.
    """
    rest = torch.minimum(rest, running[lane, stratum, -1] * BELOW_ONE)
    wanted = rest[:, None, :].expand(-1, running.shape[1], -1).contiguous()
    found = torch.searchsorted(running, wanted, right=True)
    node = found.gather(1, stratum[:, None, :]).squeeze(1) if running.shape[1] > 1 else found.squeeze(1)
    return node, rest - running[lane, stratum, (node - 1).clamp_min(0)] * (node > 0)


def _choose(children: Tensor, rest: Tensor) -> tuple[Tensor, Tensor]:
    """The child in whose interval `rest` falls, and the remainder of `rest` in it.

    Rounding may have raised `rest` to the sum of the children or above, so it is first clamped below it. Then the first
    running sum above it exists and belongs to a child of positive weight.
    """
    running = children.cumsum(-1)
    rest = torch.minimum(rest, running[..., -1] * BELOW_ONE)
    passed = running <= rest[..., None]
    return passed.sum(-1), rest - (running * passed).amax(-1)
