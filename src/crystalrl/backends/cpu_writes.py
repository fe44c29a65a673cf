"""Writes to slots on CPU: tensors in and out, computed by the loops of `numba_writes` or `numpy_writes`."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from crystalrl.backends.protocols import Rule, SlotColumns, TreeTensors

RING = np.empty((0, 0), np.int32)
"""Stands for the queue where slots are a ring."""


class CpuWrites:
    """`Writes` on NumPy views of the tensors."""

    def __init__(self, loops: ModuleType) -> None:
        self._loops = loops

    def allocate(self, valid: Tensor, counter: Tensor, slots: int, queue: Tensor | None = None) -> Tensor:
        out = np.empty(valid.shape, np.int64)
        self._loops.allocate(valid.numpy(), counter.numpy(), slots, RING if queue is None else queue.numpy(), out)
        return torch.from_numpy(out)

    def store_rows(self, rows: Tensor, slots: Tensor, out: Tensor) -> None:
        self._loops.store_rows(rows.numpy(), slots.numpy(), out.numpy())

    def magnitude(self, error: Tensor, slots: Tensor, capacity: int, corrupt: Tensor) -> Tensor:
        index, magnitude = slots.numpy(), np.empty(slots.shape, np.float32)
        if not index.size:
            raise ValueError("update: wanted at least one entry, got none")
        given = error if error.dtype == torch.float32 else error.to(torch.float32)
        low, high, finite = self._loops.examine(index, given.numpy(), magnitude)
        if low < 0 or high >= capacity:
            raise ValueError(f"index: wanted slots from 0 to {capacity - 1}, got {low} … {high}")
        if not finite:
            raise ValueError("td_error: wanted finite numbers of float32, got NaN or infinity")
        return torch.from_numpy(magnitude)

    def strength(
        self, c: Tensor, flags: Tensor, slots: Tensor, kappa: Tensor, exponent: Tensor, evaluated: int
    ) -> Tensor:
        out, rule = np.empty(slots.shape, np.float32), (kappa.numpy(), exponent.numpy())
        self._loops.strength((c.numpy(), flags.numpy()), slots.numpy(), rule, evaluated, out)
        return torch.from_numpy(out)

    def take(self, values: Tensor, slots: Tensor) -> Tensor:
        array, at = values.numpy(), slots.numpy()
        if len(at) == 1:
            return torch.from_numpy(array[0].take(at, axis=0))
        flat = array.reshape(-1, *array.shape[2:])
        return torch.from_numpy(flat.take(at + np.arange(len(at))[:, None] * array.shape[1], axis=0))


class CpuEntry:
    """`Entry` of a ledger: `allocate` and `commit`, without the cost of tensors.

    counter, slots and queue: see `Writes.allocate`; tree, rule and columns: see `TreeOperations.commit`.
    """

    def __init__(
        self,
        loops: ModuleType,
        counter: Tensor,
        slots: int,
        queue: Tensor | None = None,
        tree: TreeTensors | None = None,
        rule: Rule | None = None,
        columns: SlotColumns | None = None,
    ) -> None:
        order = (counter.numpy(), slots, RING if queue is None else queue.numpy())
        held: tuple[Any, ...] = (order, None, None, None)
        admit = loops.admit_ring
        if tree is not None and rule is not None:
            held, admit = (order, tree.arrays, rule.arrays, None), loops.admit_plain
        if columns is not None:
            held, admit = (*held[:3], columns.arrays), loops.admit
        self._held = loops.hold(*held)
        self._admit = loops.bound(admit, self._held, np.empty((1, 1), np.int64), counter.numpy())

    def __call__(self, slots: NDArray[np.int64], time: NDArray[np.int64]) -> None:
        self._admit(self._held, slots, time)
