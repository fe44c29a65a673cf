"""Sum trees on CPU: tensors in and out, computed by loops of numba or their NumPy twins."""

from __future__ import annotations

from types import ModuleType

import numpy as np
import torch
from torch import Tensor

from crystalrl.backends.protocols import Gate, RandomStreams, Rule, SlotColumns, TreeTensors


class CpuTree:
    """`TreeOperations` on NumPy views of the tensors."""

    def __init__(self, loops: ModuleType, writes: ModuleType, tensors: TreeTensors) -> None:
        self._loops, self._writes = loops, writes
        self._fresh = np.zeros((len(tensors.weight), 1), np.float32)
        """c of new experiences, where none is given."""
        self._tree = tensors.arrays

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

    def commit(self, slots: Tensor, rule: Rule, columns: SlotColumns | None, c: Tensor | None) -> None:
        if columns is None:
            self._writes.commit_plain(self._tree, slots.numpy(), rule.arrays[-1])
            return
        state = self._fresh if c is None else c.contiguous().numpy()
        self._writes.commit(self._tree, rule.arrays, columns.arrays, slots.numpy(), state, columns.n_step)

    def rebuild(self) -> None:
        self._loops.build_sums(self._tree)
