"""Weighted sampling over slots: a tree of sums with several strata.

A slot has a weight (float32) and a label, the stratum it belongs to. Inner nodes hold one float64 sum per stratum, and
an update recomputes each sum on its path from its children, in order. So sums never drift: after any number of updates
they equal a fresh build bit for bit. A slot of weight zero is never drawn, whatever the rounding.

Between a draw and the update that answers it, a slot may be rewritten. Each slot has a generation, counted up by
`renew`; a draw claims the generation it saw, and `settle` tells which claims still hold.

On CPU the loops of `crystalrl.backends` do the work, on NumPy views of the tensors; on CUDA its Triton kernels, if there
are any. Elsewhere torch does, and as it pays per call it takes a running sum over the first level that has at most TOP
nodes, searches it, and walks only below it. All give the same slots for the same uniforms, but for uniforms within
rounding (1e-15) of the border of two nodes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from crystalrl import backends
from crystalrl.backends import BELOW_ONE, FAN, UNLABELLED, zeros
from crystalrl.random import Stream, Streams

TOP = 4096
"""Where a running sum is cheaper than walking further up."""


class Gate:
    """A factor max((1 − c)^power, floor) of the weights: c float32[L, N], power and floor float64[L, 1].

    An empty c stands for the factor 1.
    """

    def __init__(self, c: Tensor, power: Tensor, floor: Tensor) -> None:
        self.c, self.power, self.floor = self.tensors = c, power, floor
        self.numpy = tuple(x.numpy() for x in self.tensors) if c.device.type == "cpu" else ()

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
        if magnitude.device.type == "cpu":  # as `learn` has it, to the last bit
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
        self._kernels, self._fused = backends.of(self.device), backends.fused_for(self.device)
        self.fan = FAN if self._kernels else 64
        loops = self._kernels or self._fused
        sizes = _level_sizes(slots, self.fan, loops.TOP if loops else TOP)
        self._padded = (slots // self.fan + 1) * self.fan  # at least one spare leaf, where writes that are skipped go
        self.offsets = [sum(sizes[:k]) for k in range(len(sizes))]
        self.weight = zeros((lanes, self._padded), torch.float32, self.device)
        self.label = zeros((lanes, self._padded if strata > 1 else 0), torch.uint8, self.device)
        self.sums = zeros((lanes, strata, sum(sizes)), torch.float64, self.device)
        self.claims = zeros((lanes, self._padded, 2), torch.int32, self.device)
        """[…, 0] generation of the slot, […, 1] generation claimed by the last draw, or −1."""
        self.disclaim()
        self.clear()
        self._lane = torch.arange(lanes, device=self.device)[:, None]
        self._tree: tuple[Any, ...] = ()
        if self._kernels is not None:
            offsets = torch.tensor(self.offsets)
            self._tree = tuple(t.numpy() for t in (self.weight, self.label, self.sums, self.claims, offsets))
        elif self._fused is not None:
            self._tree = self._fused.Tree(self.weight, self.label, self.sums, self.claims, slots)
        nothing, one = (
            torch.zeros(lanes, 0, device=self.device),
            torch.ones(lanes, 1, dtype=torch.float64, device=self.device),
        )
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
        if self._fused is not None:
            random = (streams.keys, streams.ticks, int(Stream.DRAW))
            sampled: tuple[Tensor, Tensor] = self._fused.sample(self._tree, random, stratum, count, beta, gate.tensors)
            return sampled
        if self._kernels is None:
            slot, share = self.draw(streams.uniform(Stream.DRAW, stratum.shape[1]), stratum)
            number = count.gather(1, stratum.long()) if self.strata > 1 else count
            weight = (share * number) ** -beta
            return slot, (weight / weight.amax(-1, keepdim=True)).to(torch.float32) * gate.factor(slot)
        strata = stratum.numpy()
        slots, weights = np.empty(strata.shape, np.int64), np.empty(strata.shape, np.float32)
        ticked = streams.advance(Stream.DRAW)
        self._kernels.sample(self._tree, ticked, strata, count.numpy(), beta.numpy(), gate.numpy, slots, weights)
        return torch.from_numpy(slots), torch.from_numpy(weights)

    def draw(self, uniform: Tensor, stratum: Tensor) -> tuple[Tensor, Tensor]:
        """One slot per uniform, with replacement, in proportion to weight within its stratum.

        uniform float64[L, B] in [0, 1), stratum uint8[L, B] → slots int64[L, B], share of the stratum's total
        float64[L, B]. A stratum whose total is zero must not be asked for: its answer means nothing.
        """
        if self._kernels is not None:
            slots, shares = np.empty(uniform.shape, np.int64), np.empty(uniform.shape)
            self._kernels.descend(self._tree, uniform.numpy(), stratum.numpy(), slots, shares)
            return torch.from_numpy(slots), torch.from_numpy(shares)
        if self._fused is not None:
            drawn: tuple[Tensor, Tensor] = self._fused.descend(self._tree, uniform, stratum)
            return drawn
        lane, stratum = self._lane, stratum.long()  # torch takes uint8 for a mask
        running = self.sums[:, :, self.offsets[-1] :].cumsum(-1)
        total = running[:, 0, -1:] if self.strata == 1 else running[lane, stratum, -1]
        node, rest = _locate(running, uniform * total, stratum, lane)
        row = lane * self.strata + stratum
        for level in range(len(self.offsets) - 2, -1, -1):
            chosen, rest = _choose(self._family(self.sums, row, self.offsets[level], node), rest)
            node = node * self.fan + chosen
        leaves = self._family(self.weight, lane, 0, node)
        if self.strata > 1:
            leaves = leaves * (self._family(self.label, lane, 0, node) == stratum[..., None])
        slot = node * self.fan + _choose(leaves.to(torch.float64), rest)[0]
        self.claims[lane, slot, 1] = self.claims[lane, slot, 0]
        return slot, self.weight[lane, slot] / total

    def _family(self, values: Tensor, row: Tensor, offset: int, node: Tensor) -> Tensor:
        """Children [L, B, fan] of nodes [L, B], each in its row of `values` [rows, …] at `offset`."""
        at = row * (values.shape[-1] // self.fan) + (offset // self.fan + node)
        return values.view(-1, self.fan).index_select(0, at.reshape(-1)).view(*at.shape, self.fan)

    def learn(self, slot: Tensor, magnitude: Tensor, rule: Learning) -> None:
        """New weights for drawn slots int64[L, B] from |δ| float32[L, B], skipping slots renewed since."""
        if self._kernels is not None:
            self._kernels.learn(self._tree, rule.state, slot.numpy(), magnitude.numpy(), *rule.numbers)
            return
        if self._fused is not None:
            state, slot, magnitude = (rule.c, rule.error), slot.contiguous(), magnitude.contiguous()
            self._fused.learn(self._tree, state, slot, magnitude, rule.epsilon, rule.exponent, rule.highest)
            return
        slot = self._settle(slot)
        at, kept = slot.clamp_min(0), slot >= 0
        base = rule.base(magnitude)
        label = self.label.gather(1, at) if self.strata > 1 else torch.zeros_like(at, dtype=torch.uint8)
        self.set(slot, rule.weight(label, base, at), label)
        torch.maximum(rule.highest, (base * kept).amax(-1), out=rule.highest)
        if rule.error.shape[1]:
            rule.error.scatter_(1, torch.where(kept, slot, rule.error.shape[1] - 1), magnitude)

    def _settle(self, slot: Tensor) -> Tensor:
        """slots int64[L, B] with −1 where one was renewed since it was drawn.

        Their claims are given up by this: a later call without a draw in between gives the slots back as they are.
        """
        generation, claimed = self.claims[self._lane, slot].unbind(-1)
        self.claims[:, :, 1].scatter_(1, slot, -1)
        return torch.where((claimed < 0) | (claimed == generation), slot, -1)

    def set(self, slot: Tensor, weight: Tensor, label: Tensor) -> None:
        """Give slots int64[L, B] a weight float32[L, B] and a label uint8[L, B]; a negative slot is skipped.

        Where a slot occurs twice the last one counts (on CUDA: one of them).
        """
        if self._kernels is not None:
            self._kernels.raise_sums(self._tree, slot.numpy(), weight.numpy(), label.numpy())
            return
        if self._fused is not None:
            self._fused.set_weights(self._tree, slot.contiguous(), weight.contiguous(), label.contiguous())
            return
        lane, kept = self._lane, slot >= 0
        slot = self._or_spare(slot)  # which keeps weight zero and no label
        self.weight[lane, slot] = weight * kept
        node = slot // self.fan
        leaves = self._family(self.weight, lane, 0, node).to(torch.float64)
        if self.strata == 1:
            self.sums[lane, 0, node] = leaves.sum(-1)
        else:
            self.label[lane, slot] = label.masked_fill(~kept, UNLABELLED)
            labels = self._family(self.label, lane, 0, node)
            for s in range(self.strata):
                self.sums[lane, s, node] = (leaves * (labels == s)).sum(-1)
        for level in range(1, len(self.offsets)):
            node = node // self.fan
            for s in range(self.strata):
                children = self._family(self.sums, lane * self.strata + s, self.offsets[level - 1], node)
                self.sums[lane, s, self.offsets[level] + node] = children.sum(-1)

    def write(self, slot: Tensor, highest: Tensor, **crystal: Any) -> None:
        """New experiences of weight `highest` float32[L] in slots int64[L, B], by a Triton kernel; what a crystal
        ledger adds is for `fused.written`.
        """
        assert self._fused is not None
        self._fused.written(self._tree, slot.contiguous(), highest, **crystal)

    def set_one(self, slot: int, weight: float, label: int) -> None:
        """`set` and `renew` for one slot of the only lane, on CPU."""
        assert self._kernels is not None
        self._kernels.raise_one(self._tree, slot, weight, label)

    def _or_spare(self, slot: Tensor) -> Tensor:
        """Negative slots become the last padding leaf."""
        return torch.where(slot >= 0, slot, self._padded - 1)

    def renew(self, slot: Tensor) -> None:
        """Slots int64[L, B] hold something new, so claims on what was there are void; a negative slot is skipped."""
        generation = self.claims[:, :, 0]
        generation.scatter_add_(1, self._or_spare(slot), torch.ones_like(slot, dtype=torch.int32))

    def rebuild(self) -> None:
        """Recompute all sums after `weight` and `label` were written as wholes."""
        if loops := self._kernels or self._fused:
            loops.build_sums(self._tree)
            return
        for s in range(self.strata):
            mine = self.weight.to(torch.float64) * (self.label == s if self.strata > 1 else 1)
            below = mine.unflatten(1, (-1, self.fan)).sum(-1)
            for level, offset in enumerate(self.offsets):
                self.sums[:, s, offset : offset + below.shape[1]] = below
                if level + 1 < len(self.offsets):
                    nodes = self.sums[:, s, offset : self.offsets[level + 1]]
                    below = nodes.unflatten(1, (-1, self.fan)).sum(-1)

    def clear(self) -> None:
        self.weight.zero_()
        self.label.fill_(UNLABELLED)
        self.sums.zero_()
        self.claims[:, :, 0] += 1  # claims stay: an update that answers a draw from before is stale

    def disclaim(self) -> None:
        """No draw is outstanding any more."""
        self.claims[:, :, 1] = -1

    def check(self) -> None:
        """Raise if a sum differs from a fresh build, a weight is negative or not finite, or a claim is impossible."""
        if not bool(torch.isfinite(self.weight).all()) or bool((self.weight < 0).any()):
            raise AssertionError("draw weights: wanted finite and ≥ 0")
        if bool((self.claims[..., 1] > self.claims[..., 0]).any()):
            raise AssertionError("claims: one is ahead of its slot's generation")
        kept = self.sums.clone()
        self.rebuild()
        if not (torch.equal(kept, self.sums) if self._kernels else torch.allclose(kept, self.sums, rtol=1e-12)):
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


def _locate(running: Tensor, rest: Tensor, stratum: Tensor, lane: Tensor) -> tuple[Tensor, Tensor]:
    """Top node in whose interval `rest` [L, B] falls, and what remains inside it; running sums [L, S, nodes]."""
    rest = torch.minimum(rest, running[lane, stratum, -1] * BELOW_ONE)
    wanted = rest[:, None, :].expand(-1, running.shape[1], -1).contiguous()
    found = torch.searchsorted(running, wanted, right=True)
    node = found.gather(1, stratum[:, None, :]).squeeze(1) if running.shape[1] > 1 else found.squeeze(1)
    return node, rest - running[lane, stratum, (node - 1).clamp_min(0)] * (node > 0)


def _choose(children: Tensor, rest: Tensor) -> tuple[Tensor, Tensor]:
    """The child in whose interval `rest` falls, and what remains of `rest` inside it.

    `rest` is first brought below the sum of the children, from which rounding may have lifted it; so the first running
    sum above it exists and belongs to a child of positive weight.
    """
    running = children.cumsum(-1)
    rest = torch.minimum(rest, running[..., -1] * BELOW_ONE)
    passed = running <= rest[..., None]
    return passed.sum(-1), rest - (running * passed).amax(-1)
