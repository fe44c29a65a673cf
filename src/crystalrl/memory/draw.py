"""Weighted sampling over slots: a tree of sums with several strata.

A slot has a weight (float32) and a label, the stratum it belongs to. Inner nodes hold one float64 sum per stratum, and
an update recomputes each sum on its path from its children, in order. So sums never drift: after any number of updates
they equal a fresh build bit for bit. A slot of weight zero is never drawn, whatever the rounding.

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

UNLABELLED = 255
"""Label of a slot that belongs to no stratum."""

TOP = 4096
"""Where a running sum is cheaper than walking further up."""


class WeightTree:
    """Weights of `lanes` × `slots`, drawable by stratum.

    Invariant: every inner sum is the in-order float64 sum of its children; padding has weight 0 and no label.
    """

    def __init__(self, lanes: int, slots: int, strata: int = 1, device: torch.device | str = "cpu") -> None:
        self.lanes, self.slots, self.strata = lanes, slots, strata
        self.device = torch.device(device)
        on_cpu = self.device.type == "cpu"
        self._kernels = kernels.load() if on_cpu else None
        self.fan = 16 if on_cpu else 64
        sizes = _level_sizes(slots, self.fan, 1 if self._kernels else TOP)
        padded = (slots // self.fan + 1) * self.fan  # at least one spare leaf, see `set`
        self.offsets = [sum(sizes[:k]) for k in range(len(sizes))]
        self.weight = torch.zeros(lanes, padded, device=self.device)
        self.label = torch.full((lanes, padded), UNLABELLED, dtype=torch.uint8, device=self.device)
        self.sums = torch.zeros(lanes, strata, sum(sizes), dtype=torch.float64, device=self.device)
        self._shape = np.array([self.fan, len(sizes), *self.offsets], dtype=np.int64)
        tensors = (self.weight, self.label, self.sums, torch.arange(lanes, device=self.device)[:, None])
        self._arrays: tuple[Any, ...] = tuple(t.numpy() for t in tensors) if on_cpu else tensors

    @property
    def total(self) -> Tensor:
        """float64[L, S]: the sum of weights per stratum."""
        return self.sums[:, :, self.offsets[-1] :].sum(-1)

    def draw(self, uniform: Tensor, stratum: Tensor) -> tuple[Tensor, Tensor]:
        """One slot per uniform, with replacement, in proportion to weight within its stratum.

        uniform float64[L, B] in [0, 1), stratum uint8[L, B] → slots int64[L, B], share of the stratum's total
        float64[L, B]. A stratum whose total is zero must not be asked for: its answer means nothing.
        """
        if self.device.type != "cpu":
            return self._draw_generic(uniform, stratum)
        if self._kernels is None:
            slot, share = self._draw_generic(uniform.numpy(), stratum.numpy())
            return torch.from_numpy(slot), torch.from_numpy(share)
        slot, share = torch.empty(uniform.shape, dtype=torch.int64), torch.empty(uniform.shape, dtype=torch.float64)
        weight, label, sums, _ = self._arrays
        self._kernels.descend(
            weight, label, sums, self._shape, uniform.numpy(), stratum.numpy(), slot.numpy(), share.numpy()
        )
        return slot, share

    def _draw_generic(self, uniform: Any, stratum: Any) -> tuple[Any, Any]:
        weight, label, sums, lane = self._arrays
        running = sums[:, :, self.offsets[-1] :].cumsum(-1)
        total = running[lane, stratum, -1]
        node, rest = _locate(running, uniform * total, stratum, lane)
        for level in range(len(self.offsets) - 2, -1, -1):
            families = _families(sums, self.offsets[level], self.offsets[level + 1], self.fan)
            chosen, rest = _choose(families[lane, stratum, node], rest)
            node = node * self.fan + chosen
        leaves = weight.reshape(self.lanes, -1, self.fan)[lane, node]
        mine = label.reshape(self.lanes, -1, self.fan)[lane, node] == stratum[..., None]
        chosen, _ = _choose(_masked(leaves, mine), rest)
        slot = node * self.fan + chosen
        return slot, weight[lane, slot] / total

    def set(self, slot: Tensor, weight: Tensor, label: Tensor) -> None:
        """Give slots int64[L, B] a weight float32[L, B] and a label uint8[L, B]; a negative slot is skipped.

        Where a slot occurs twice the last one counts (on CUDA: one of them).
        """
        if self.device.type != "cpu":
            self._set_generic(slot, weight, label)
        elif self._kernels is None:
            self._set_generic(slot.numpy(), weight.numpy(), label.numpy())
        else:
            self._kernels.raise_sums(*self._arrays[:3], self._shape, slot.numpy(), weight.numpy(), label.numpy())

    def set_one(self, slot: int, weight: float, label: int) -> None:
        """`set` for one slot of the only lane, on CPU."""
        if self._kernels is not None:
            self._kernels.raise_one(*self._arrays[:3], self._shape, slot, weight, label)
        else:
            self._set_generic(np.array([[slot]]), np.array([[weight]]), np.array([[label]], dtype=np.uint8))

    def _set_generic(self, slot: Any, value: Any, mark: Any) -> None:
        """Skipped entries write zero and no label to the last padding leaf, which holds just that."""
        weight, label, sums, lane = self._arrays
        kept = slot >= 0
        slot = slot * kept + (weight.shape[1] - 1) * ~kept
        weight[lane, slot] = value * kept
        label[lane, slot] = mark * kept + UNLABELLED * ~kept
        node = slot // self.fan
        leaves = weight.reshape(self.lanes, -1, self.fan)[lane, node]
        labels = label.reshape(self.lanes, -1, self.fan)[lane, node]
        for s in range(self.strata):
            sums[lane, s, node] = _in_order(_masked(leaves, labels == s))
        for level in range(1, len(self.offsets)):
            families = _families(sums, self.offsets[level - 1], self.offsets[level], self.fan)
            node = node // self.fan
            for s in range(self.strata):
                sums[lane, s, self.offsets[level] + node] = _in_order(families[lane, s, node])

    def rebuild(self) -> None:
        """Recompute all sums after `weight` and `label` were written as wholes."""
        if self._kernels is not None:
            self._kernels.build_sums(*self._arrays[:3], self._shape)
            return
        weight, label, sums, _ = self._arrays
        leaves, labels = (x.reshape(self.lanes, -1, self.fan) for x in (weight, label))
        for s in range(self.strata):
            below = _in_order(_masked(leaves, labels == s))
            for level, offset in enumerate(self.offsets):
                sums[:, s, offset : offset + below.shape[1]] = below
                if level + 1 < len(self.offsets):
                    below = _in_order(_families(sums, offset, self.offsets[level + 1], self.fan)[:, s])

    def clear(self) -> None:
        self.weight.zero_()
        self.label.fill_(UNLABELLED)
        self.sums.zero_()

    def check(self) -> None:
        """Raise if a sum differs from a fresh build, or a weight is negative or not finite."""
        if not bool(torch.isfinite(self.weight).all()) or bool((self.weight < 0).any()):
            raise AssertionError("draw weights: wanted finite and ≥ 0")
        kept = self.sums.clone()
        self.rebuild()
        same = (
            torch.equal(kept, self.sums) if self.device.type == "cpu" else torch.allclose(kept, self.sums, rtol=1e-12)
        )
        if not same:
            raise AssertionError("draw sums: differ from the sums of the weights")

    @property
    def nbytes(self) -> int:
        return self.weight.nbytes + self.label.nbytes + self.sums.nbytes


def _level_sizes(slots: int, fan: int, top: int) -> list[int]:
    """Nodes per level above the leaves, each padded to whole families; the last level has at most `top` nodes."""
    sizes = [slots // fan + 1]
    while sizes[-1] > top:
        above = -(-sizes[-1] // fan)
        sizes[-1] = above * fan
        sizes.append(above)
    return sizes


def _families(sums: Any, first: int, end: int, fan: int) -> Any:
    """View of one level as [L, S, parents, fan]."""
    return sums[:, :, first:end].reshape(sums.shape[0], sums.shape[1], -1, fan)


def _masked(weight: Any, mask: Any) -> Any:
    """float64 weights, zero where the mask is False."""
    if isinstance(weight, Tensor):
        return weight.to(torch.float64) * mask
    return weight.astype(np.float64) * mask


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
        node: Any = found.gather(1, stratum[:, None, :].long()).squeeze(1) if running.shape[1] > 1 else found.squeeze(1)
        return node, rest - running[lane, stratum, (node - 1).clamp_min(0)] * (node > 0)
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
