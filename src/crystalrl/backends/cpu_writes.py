"""Writes to slots on CPU, through NumPy, which costs less per call than torch."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor

from crystalrl.backends.protocols import ColumnArrays


def write_columns(columns: ColumnArrays, lane: Any, slot: Any, new: tuple[Any, Any, Any]) -> None:
    """Write new = (c, birth, environment) to slots of lanes: integers, or arrays [K] of integers."""
    c, birth, env = new
    columns.floats[:, lane, slot] = 0.0
    columns.floats[0, lane, slot] = c
    columns.bytes[:, lane, slot] = 0
    columns.birth[lane, slot] = birth
    columns.updated[lane, slot] = columns.clock[lane].astype(np.int32)  # wraps around
    if columns.env.size:
        columns.env[lane, slot] = env


class CpuWrites:
    """`Writes` with the loops of `numba_tree` or `numpy_tree`."""

    def __init__(self, loops: ModuleType) -> None:
        self._loops = loops

    def allocate(self, valid: Tensor, counter: Tensor, slots: int, queue: Tensor | None = None) -> Tensor:
        wanted, first = valid.numpy(), counter.numpy()
        rank = wanted.cumsum(-1) - 1
        number = first[:, None] + rank
        chosen = number % slots
        if queue is not None:
            chosen = np.take_along_axis(queue.numpy(), number.clip(0, slots - 1), 1).astype(np.int64)
        first += rank[:, -1] + 1
        return torch.from_numpy(np.where(wanted, chosen, -1))

    def store_rows(self, rows: Tensor, slots: Tensor, out: Tensor) -> None:
        lanes, chosen = len(rows), slots.numpy()
        kept = chosen >= 0
        flat = chosen if lanes == 1 else chosen + np.arange(lanes)[:, None] * (len(out) // lanes)
        out.numpy()[flat[kept]] = rows.numpy()[kept]

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
