"""Weighted sampling over slots: a tree of sums with several strata.

A slot has a weight (float32) and a label, the stratum it belongs to. Inner nodes hold one float64 sum per stratum, and
an update recomputes each sum on its path from its children, in order. So sums never drift: after any number of updates
they equal a fresh build bit for bit. A slot of weight zero is never drawn, whatever the rounding.

Between a draw and the update that answers it, a slot may be rewritten. Each slot has a generation, counted up by
`renew`; a draw claims the generation it saw, and `settle` tells which claims still hold.

Two ways down. The numba kernels walk the whole tree. NumPy (on CPU without numba) and torch (on CUDA) pay per call, not
per node: they take a running sum over the first level that has at most TOP nodes, search it, and walk only below it.
Both spell what they need alike, so one set of functions serves both. The two ways give the same slots for the same
uniforms but for a uniform within rounding (1e-15) of the border between two nodes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from crystalrl import kernels
from crystalrl.kernels import BELOW_ONE
from crystalrl.random import Stream, Streams

UNLABELLED = 255
"""Label of a slot that belongs to no stratum."""

TOP = 4096
"""Where a running sum is cheaper than walking further up."""


class Gate:
    """A factor max((1 − c)^power, floor) of the weights: c float32[L, N], power and floor float64[L, 1].

    An empty c stands for the factor 1.
    """

    def __init__(self, c: Tensor, power: Tensor, floor: Tensor) -> None:
        self.c, self.power, self.floor = c, power, floor
        self.numpy = tuple(x.numpy() for x in (c, power, floor)) if c.device.type == "cpu" else ()

    def factor(self, slots: Tensor) -> Tensor | float:
        """float32[L, B] of slots int64[L, B]."""
        return self.of(self.c.gather(1, slots)) if self.c.shape[1] else 1.0

    def of(self, c: Tensor) -> Tensor:
        return torch.maximum((1 - c.to(torch.float64)) ** self.power, self.floor).to(torch.float32)


class Learning:
    """How |δ| becomes a draw weight: (|δ| + ε)^exponent, float64[L, 1]; the largest so far is kept in highest f32[L].

    With phases (c float32[L, N] and error float32[L, N + 1], else both empty): liquid as is, glass times √c, crystal c
    whatever the error, none below ε; |δ| is written to `error`.
    """

    def __init__(self, epsilon: float, exponent: Tensor, highest: Tensor, c: Tensor, error: Tensor) -> None:
        self.epsilon, self.exponent, self.highest, self.c, self.error = epsilon, exponent, highest, c, error
        if highest.device.type == "cpu":
            self.state = (c.numpy(), error.numpy())
            self.numbers = (epsilon, exponent.numpy(), highest.numpy())

    def base(self, magnitude: Tensor) -> Tensor:
        if magnitude.device.type == "cpu":
            wide = magnitude.numpy().astype(np.float64)
            return torch.from_numpy(((wide + self.epsilon) ** self.exponent.numpy()).astype(np.float32))
        return ((magnitude.to(torch.float64) + self.epsilon) ** self.exponent).to(torch.float32)

    def weight(self, label: Tensor, base: Tensor, slot: Tensor | None = None) -> Tensor:
        """float32 weights of labels [L, B] with the given base; slot int64[L, B]: whose c counts (None: in order)."""
        if not self.c.shape[1]:
            return base
        c = self.c if slot is None else self.c.gather(1, slot)
        weight = torch.where(label == 2, c, torch.where(label == 1, base * c.sqrt(), base))
        return torch.where(label == UNLABELLED, 0.0, weight.clamp_min(self.epsilon))


class WeightTree:
    """Weights of `lanes` × `slots`, drawable by stratum.

    Invariant: every inner sum is the in-order float64 sum of its children; padding has weight 0 and no label; a claim
    is −1 or a generation its slot has had. With a single stratum there are no labels: every slot belongs to it.
    """

    def __init__(self, lanes: int, slots: int, strata: int = 1, device: torch.device | str = "cpu") -> None:
        self.lanes, self.slots, self.strata = lanes, slots, strata
        self.device = torch.device(device)
        on_cpu = self.device.type == "cpu"
        self._kernels = kernels.load() if on_cpu else None
        self.fan = 16 if on_cpu else 64
        sizes = _level_sizes(slots, self.fan, 1 if self._kernels else TOP)
        self._padded = (slots // self.fan + 1) * self.fan  # at least one spare leaf, see `_or_spare`
        self.offsets = [sum(sizes[:k]) for k in range(len(sizes))]
        self.weight = torch.zeros(lanes, self._padded, device=self.device)
        self.label = torch.zeros(lanes, self._padded if strata > 1 else 0, dtype=torch.uint8, device=self.device)
        self.sums = torch.zeros(lanes, strata, sum(sizes), dtype=torch.float64, device=self.device)
        self.claims = torch.zeros(lanes, self._padded, 2, dtype=torch.int32, device=self.device)
        """[…, 0] generation of the slot, […, 1] generation claimed by the last draw, or −1."""
        self.claims[:, :, 1] = -1
        self.clear()
        lane = torch.arange(lanes, device=self.device)[:, None]
        self._shape = np.array([self.fan, len(sizes), *self.offsets], dtype=np.int64)
        tensors = (self.weight, self.label, self.sums, self.claims, lane)
        self._arrays: tuple[Any, ...] = tuple(t.numpy() for t in tensors) if on_cpu else tensors
        nothing, one = torch.zeros(lanes, 0, device=self.device), torch.ones(lanes, 1, dtype=torch.float64)
        self._no_gate = Gate(nothing, one, one)

    @property
    def total(self) -> Tensor:
        """float64[L, S]: the sum of weights per stratum."""
        return self.sums[:, :, self.offsets[-1] :].sum(-1)

    def sample(
        self, streams: Streams, stratum: Tensor, count: Tensor, beta: Tensor, gate: Gate | None = None
    ) -> tuple[Tensor, Tensor]:
        """Draw one slot for each entry of `stratum` uint8[L, B], with its importance weight.

        count float64[L, S]: experiences per stratum; beta float64[L, 1]. Returns slots int64[L, B] and weights
        float32[L, B]: (count·p)^(−β), p within the stratum, divided by the largest of the lane's batch, times the gate.
        """
        gate = gate or self._no_gate
        if self._kernels is None:
            uniform = streams.uniform(Stream.DRAW, stratum.shape[1])
            slot, share = self.draw(uniform, stratum)
            number = count.gather(1, stratum.long()) if self.strata > 1 else count
            return slot, _importance(share * number, beta) * gate.factor(slot)
        slots, weights = np.empty(stratum.shape, np.int64), np.empty(stratum.shape, np.float32)
        random, tree = streams.advance(Stream.DRAW), (*self._arrays[:4], self._shape)
        arrays = (stratum.numpy(), count.numpy(), beta.numpy(), gate.numpy, slots, weights)
        self._kernels.sample(tree, random, *arrays)
        return torch.from_numpy(slots), torch.from_numpy(weights)

    def draw(self, uniform: Tensor, stratum: Tensor) -> tuple[Tensor, Tensor]:
        """One slot per uniform, with replacement, in proportion to weight within its stratum.

        uniform float64[L, B] in [0, 1), stratum uint8[L, B] → slots int64[L, B], share of the stratum's total
        float64[L, B]. A stratum whose total is zero must not be asked for: its answer means nothing.
        """
        if self.device.type != "cpu":
            return self._draw_generic(uniform, stratum)
        if self._kernels is None:
            slot, share = self._draw_generic(uniform.numpy(), stratum.numpy())
        else:
            slot, share = np.empty(uniform.shape, np.int64), np.empty(uniform.shape)
            self._kernels.descend((*self._arrays[:4], self._shape), uniform.numpy(), stratum.numpy(), slot, share)
        return torch.from_numpy(slot), torch.from_numpy(share)

    def _draw_generic(self, uniform: Any, stratum: Any) -> tuple[Any, Any]:
        weight, label, sums, claims, lane = self._arrays
        stratum = stratum.long() if isinstance(stratum, Tensor) else stratum  # torch takes uint8 for a mask
        running = sums[:, :, self.offsets[-1] :].cumsum(-1)
        total = running[:, 0, -1:] if self.strata == 1 else running[lane, stratum, -1]
        node, rest = _locate(running, uniform * total, stratum, lane)
        row = lane * self.strata + stratum
        for level in range(len(self.offsets) - 2, -1, -1):
            chosen, rest = _choose(self._family(sums, row, self.offsets[level], node), rest)
            node = node * self.fan + chosen
        leaves = self._family(weight, lane, 0, node)
        if self.strata > 1:
            leaves = _masked(leaves, self._family(label, lane, 0, node) == stratum[..., None])
        slot = node * self.fan + _choose(_double(leaves), rest)[0]
        claims[lane, slot, 1] = claims[lane, slot, 0]
        return slot, weight[lane, slot] / total

    def _family(self, values: Any, row: Any, offset: int, node: Any) -> Any:
        """Children [L, B, fan] of nodes [L, B], each in its row of `values` [rows, …] at `offset`."""
        families = values.reshape(-1, self.fan)
        per_row = values.shape[-1] // self.fan
        at = row * per_row + (offset // self.fan + node)
        if isinstance(values, Tensor):
            return families.index_select(0, at.reshape(-1)).view(*at.shape, self.fan)
        return families.take(at, axis=0)

    def learn(self, slot: Tensor, magnitude: Tensor, rule: Learning) -> None:
        """New weights for drawn slots int64[L, B] from |δ| float32[L, B], skipping slots renewed since."""
        if self._kernels is not None:
            tree = (*self._arrays[:4], self._shape)
            self._kernels.learn(tree, rule.state, slot.numpy(), magnitude.numpy(), *rule.numbers)
            return
        slot = self.settle(slot)
        at, kept = slot.clamp_min(0), slot >= 0
        base = rule.base(magnitude)
        label = self.label.gather(1, at) if self.strata > 1 else torch.zeros_like(at, dtype=torch.uint8)
        self.set(slot, rule.weight(label, base, at), label)
        torch.maximum(rule.highest, (base * kept).amax(-1), out=rule.highest)
        if rule.error.shape[1]:
            rule.error.scatter_(1, torch.where(kept, slot, rule.error.shape[1] - 1), magnitude)

    def set(self, slot: Tensor, weight: Tensor, label: Tensor) -> None:
        """Give slots int64[L, B] a weight float32[L, B] and a label uint8[L, B]; a negative slot is skipped.

        Where a slot occurs twice the last one counts (on CUDA: one of them).
        """
        if self.device.type != "cpu":
            self._set_generic(slot, weight, label)
        elif self._kernels is None:
            self._set_generic(slot.numpy(), weight.numpy(), label.numpy())
        else:
            self._kernels.raise_sums((*self._arrays[:4], self._shape), slot.numpy(), weight.numpy(), label.numpy())

    def set_one(self, slot: int, weight: float, label: int) -> None:
        """`set` and `renew` for one slot of the only lane, on CPU."""
        self._arrays[3][0, slot, 0] += 1
        if self._kernels is not None:
            self._kernels.raise_one((*self._arrays[:4], self._shape), slot, weight, label)
        else:
            self._set_generic(np.array([[slot]]), np.array([[weight]]), np.array([[label]], dtype=np.uint8))

    def _set_generic(self, slot: Any, value: Any, mark: Any) -> None:
        """Skipped entries write zero and no label to the last padding leaf, which holds just that."""
        weight, label, sums, _, lane = self._arrays
        kept = slot >= 0
        slot = self._or_spare(slot)
        weight[lane, slot] = value * kept
        node = slot // self.fan
        leaves = _double(self._family(weight, lane, 0, node))
        if self.strata == 1:
            sums[lane, 0, node] = _in_order(leaves)
        else:
            label[lane, slot] = _unless(kept, mark)
            labels = self._family(label, lane, 0, node)
            for s in range(self.strata):
                sums[lane, s, node] = _in_order(_masked(leaves, labels == s))
        for level in range(1, len(self.offsets)):
            node = node // self.fan
            for s in range(self.strata):
                children = self._family(sums, lane * self.strata + s, self.offsets[level - 1], node)
                sums[lane, s, self.offsets[level] + node] = _in_order(children)

    def _or_spare(self, slot: Any) -> Any:
        """Negative slots become the last padding leaf, whose weight is always 0."""
        kept = slot >= 0
        return slot * kept + (self._padded - 1) * ~kept

    def renew(self, slot: Tensor) -> None:
        """Slots int64[L, B] hold something new, so claims on what was there are void; a negative slot is skipped."""
        generation = self.claims[:, :, 0]
        generation.scatter_add_(1, self._or_spare(slot), torch.ones_like(slot, dtype=torch.int32))

    def settle(self, slot: Tensor) -> Tensor:
        """slots int64[L, B] with −1 where one was renewed since it was drawn.

        Their claims are given up by this: a later call without a draw in between gives the slots back as they are.
        """
        pair = self.claims[self._arrays[4], slot] if self.device.type != "cpu" else self._cpu_claims(slot)
        self.claims[:, :, 1].scatter_(1, slot, -1)
        return torch.where((pair[..., 1] < 0) | (pair[..., 1] == pair[..., 0]), slot, -1)

    def _cpu_claims(self, slot: Tensor) -> Tensor:
        return torch.from_numpy(self._arrays[3][self._arrays[4], slot.numpy()])

    def rebuild(self) -> None:
        """Recompute all sums after `weight` and `label` were written as wholes."""
        if self._kernels is not None:
            self._kernels.build_sums((*self._arrays[:4], self._shape))
            return
        weight, label, sums = self._arrays[:3]
        leaves, labels = (x.reshape(self.lanes, -1, self.fan) for x in (weight, label))
        for s in range(self.strata):
            below = _in_order(_double(leaves) if self.strata == 1 else _masked(_double(leaves), labels == s))
            for level, offset in enumerate(self.offsets):
                sums[:, s, offset : offset + below.shape[1]] = below
                if level + 1 < len(self.offsets):
                    nodes = sums[:, s, offset : self.offsets[level + 1]]
                    below = _in_order(nodes.reshape(self.lanes, -1, self.fan))

    def clear(self) -> None:
        self.weight.zero_()
        self.label.fill_(UNLABELLED)
        self.sums.zero_()
        self.claims[:, :, 0] += 1  # claims stay: an update that answers a draw from before is stale

    def check(self) -> None:
        """Raise if a sum differs from a fresh build, a weight is negative or not finite, or a claim is impossible."""
        if not bool(torch.isfinite(self.weight).all()) or bool((self.weight < 0).any()):
            raise AssertionError("draw weights: wanted finite and ≥ 0")
        if bool((self.claims[..., 1] > self.claims[..., 0]).any()):
            raise AssertionError("claims: one is ahead of its slot's generation")
        kept = self.sums.clone()
        self.rebuild()
        same = (
            torch.equal(kept, self.sums) if self.device.type == "cpu" else torch.allclose(kept, self.sums, rtol=1e-12)
        )
        if not same:
            raise AssertionError("draw sums: differ from the sums of the weights")

    def tensors(self) -> dict[str, Tensor]:
        """Live tensors of the state, [L, N, …]; call `rebuild` after writing them."""
        named = {"slot.weight": self.weight, "slot.claims": self.claims}
        if self.strata > 1:
            named["slot.label"] = self.label
        return {name: tensor[:, : self.slots] for name, tensor in named.items()}

    @property
    def nbytes(self) -> int:
        return sum(tensor.nbytes for tensor in (self.weight, self.label, self.sums, self.claims))


def _level_sizes(slots: int, fan: int, top: int) -> list[int]:
    """Nodes per level above the leaves, each padded to whole families; the last level has at most `top` nodes."""
    sizes = [slots // fan + 1]
    while sizes[-1] > top:
        sizes.append(-(-sizes[-1] // fan))
    return [-(-size // fan) * fan for size in sizes]


def _double(weight: Any) -> Any:
    return weight.to(torch.float64) if isinstance(weight, Tensor) else weight.astype(np.float64)


def _masked(weight: Any, mask: Any) -> Any:
    """Weights, zero where the mask is False."""
    return weight * mask


def _unless(kept: Any, label: Any) -> Any:
    """Labels uint8, none where not kept."""
    return label.masked_fill(~kept, UNLABELLED) if isinstance(label, Tensor) else np.where(kept, label, UNLABELLED)


def _importance(expected: Tensor, beta: Tensor) -> Tensor:
    if expected.device.type == "cpu":
        array = expected.numpy() ** -beta.numpy()
        return torch.from_numpy((array / array.max(-1, keepdims=True)).astype(np.float32))
    weight = expected**-beta
    return (weight / weight.amax(-1, keepdim=True)).to(torch.float32)


def _in_order(children: Any) -> Any:
    """Sum over the last axis, on CPU in index order so that NumPy and numba agree bit for bit."""
    if isinstance(children, Tensor):
        return children.sum(-1)
    if children.size > 1 << 16:
        total = children[..., 0].copy()
        for j in range(1, children.shape[-1]):
            total += children[..., j]
        return total
    return children.cumsum(-1)[..., -1]


def _locate(running: Any, rest: Any, stratum: Any, lane: Any) -> tuple[Any, Any]:
    """Top node in whose interval `rest` [L, B] falls, and what remains inside it; running sums [L, S, nodes]."""
    if isinstance(running, Tensor):
        rest = torch.minimum(rest, running[lane, stratum, -1] * BELOW_ONE)
        wanted = rest[:, None, :].expand(-1, running.shape[1], -1).contiguous()
        found = torch.searchsorted(running, wanted, right=True)
        node: Any = found.gather(1, stratum[:, None, :]).squeeze(1) if running.shape[1] > 1 else found.squeeze(1)
        return node, rest - running[lane, stratum, (node - 1).clamp_min(0)] * (node > 0)
    if running.shape[1] == 1:
        rest = np.minimum(rest, running[:, 0, -1:] * BELOW_ONE)
        node = np.stack(
            [np.searchsorted(sums, wanted, side="right") for sums, wanted in zip(running[:, 0], rest, strict=True)]
        )
        return node, rest - running[lane, 0, np.maximum(node - 1, 0)] * (node > 0)
    rest = np.minimum(rest, running[lane, stratum, -1] * BELOW_ONE)
    node = np.empty(rest.shape, dtype=np.int64)
    for i in range(running.shape[0]):
        for s in range(running.shape[1]):
            mine = stratum[i] == s
            node[i, mine] = np.searchsorted(running[i, s], rest[i, mine], side="right")
    return node, rest - running[lane, stratum, np.maximum(node - 1, 0)] * (node > 0)


def _choose(children: Any, rest: Any) -> tuple[Any, Any]:
    """The child in whose interval `rest` falls, and what remains of `rest` inside it.

    `rest` is first brought below the sum of the children, from which rounding may have lifted it; so the first running
    sum above it exists and belongs to a child of positive weight.
    """
    where: Any = torch if isinstance(children, Tensor) else np
    running = children.cumsum(-1)
    rest = where.minimum(rest, running[..., -1] * BELOW_ONE)
    passed = running <= rest[..., None]
    return passed.sum(-1), rest - where.amax(running * passed, -1)
