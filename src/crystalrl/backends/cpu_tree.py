"""Sum trees on CPU: tensors in and out, computed by the loops of `numba_tree` or `numpy_tree`."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor

from crystalrl.backends.cpu_writes import write_columns
from crystalrl.backends.protocols import UNLABELLED, Gate, RandomStreams, Rule, SlotColumns, TreeTensors


class CpuTree:
    """`TreeOperations` on NumPy views of the tensors."""

    def __init__(self, loops: ModuleType, tensors: TreeTensors) -> None:
        self._loops = loops
        self._tree = (*(tensor.numpy() for tensor in tensors[:4]), np.array(tensors.offsets))

    def sample(
        self, streams: RandomStreams, stream: int, stratum: Tensor, count: Tensor, beta: Tensor, gate: Gate
    ) -> tuple[Tensor, Tensor, Tensor]:
        strata, random = stratum.numpy(), streams.advance(stream)
        slots, weights = np.empty(strata.shape, np.int64), np.empty(strata.shape, np.float32)
        ticket = np.empty(strata.shape, np.int32)
        drawn = (slots, weights, ticket)
        self._loops.sample(self._tree, random, strata, count.numpy(), beta.numpy(), gate.arrays, drawn)
        return torch.from_numpy(slots), torch.from_numpy(weights), torch.from_numpy(ticket)

    def draw(self, uniform: Tensor, stratum: Tensor) -> tuple[Tensor, Tensor]:
        slots, shares = np.empty(uniform.shape, np.int64), np.empty(uniform.shape)
        self._loops.descend(self._tree, uniform.numpy(), stratum.numpy(), slots, shares)
        return torch.from_numpy(slots), torch.from_numpy(shares)

    def learn(self, slots: Tensor, ticket: Tensor, magnitude: Tensor, rule: Rule) -> None:
        self._loops.learn(self._tree, rule.arrays, slots.numpy(), ticket.numpy(), magnitude.numpy())

    def set(self, slots: Tensor, weight: Tensor, label: Tensor) -> None:
        self._loops.update_sums(self._tree, slots.numpy(), weight.numpy(), label.numpy())

    def set_one(self, slot: int, weight: float, label: int) -> None:
        """`set` of one slot of the only lane; increases its generation."""
        self._loops.update_one(self._tree, slot, weight, label)

    def commit(self, slots: Tensor, rule: Rule, columns: SlotColumns | None, c: Tensor | None) -> None:
        chosen = slots.numpy()
        kept = chosen >= 0
        at = kept.nonzero()[0], chosen[kept]
        weight, label = np.empty(chosen.shape, np.float32), np.zeros(chosen.shape, np.uint8)
        weight[:] = rule.arrays[-1][:, None]
        if columns is not None:
            state = np.zeros(chosen.shape, np.float32) if c is None else c.expand(slots.shape).numpy()
            label[:] = (state > columns.arrays.enter).sum(0)
            self._write(columns, kept, at, (state[kept], label[kept]))
            weight = rule.weight(torch.from_numpy(label), torch.from_numpy(weight), slots.clamp_min(0)).numpy()
        self._loops.update_sums(self._tree, chosen, weight, label)
        self._tree[3][at] += 1  # no slot occurs twice

    def _write(self, columns: SlotColumns, kept: Any, at: tuple[Any, Any], new: tuple[Any, Any]) -> None:
        """Columns and counts of new = (c, label) in at = (lanes, slots): the entries of the call that are kept."""
        arrays, (c, label), lane = columns.arrays, new, at[0]
        birth = arrays.number[:, None] + kept.cumsum(-1) - 1
        write_columns(arrays, *at, (c, birth[kept], kept.nonzero()[1] // columns.n_step))
        arrays.number[:] += kept.sum(-1)
        old = self._tree[1][at]
        there = old != UNLABELLED
        np.add.at(arrays.filled, (lane, label), 1)
        np.subtract.at(arrays.filled, (lane[there], old[there]), 1)

    def commit_one(self, slot: int, rule: Rule, columns: SlotColumns | None) -> None:
        if columns is not None:
            arrays = columns.arrays
            if self._tree[1][0, slot] == UNLABELLED:
                arrays.filled[0, 0] += 1
            write_columns(arrays, 0, slot, (0.0, arrays.number[0], 0))
            arrays.number[0] += 1
        self._loops.update_one(self._tree, slot, rule.arrays[-1].item(), 0)

    def rebuild(self) -> None:
        self._loops.build_sums(self._tree)
