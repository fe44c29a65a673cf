"""Experiences of completed tasks, for methods that keep some of every task."""

from __future__ import annotations

import torch
from torch import Tensor

from crystalrl.memory.base import ReplayMemory
from crystalrl.methods.base import Setup, refuse
from crystalrl.random import Stream
from crystalrl.types import Batch


class Archive:
    """Up to `size` experiences of each completed task, copied from the memory when the task ends.

    Invariant: the first `filled` of `rows` [L, T·size, W] are experiences, task after task; `fresh[l, n]` is 1 if slot
    n of the memory was written during the current task.
    """

    def __init__(self, setup: Setup, size: int) -> None:
        if size < 1:
            raise ValueError(f"size: wanted a whole number ≥ 1, got {size}")
        memory: ReplayMemory = setup.memory
        stack = memory.spec.stack
        refuse("of an archive", stack is not None, "a memory that stores whole observations", f"stack = {stack}")
        self.memory, self.size, self.streams = memory, size, setup.streams
        sample = memory.arena.read(torch.zeros(memory.lanes, 1, dtype=torch.int64, device=memory.device))
        self.rows = sample.new_zeros(memory.lanes, size * len(setup.tasks), sample.shape[-1])
        self.filled = torch.zeros((), dtype=torch.int64, device=memory.device)
        self.fresh = torch.zeros(memory.lanes, memory.capacity + 1, device=memory.device)
        """float32[L, N + 1]; the last column is spare, for steps not stored."""

    @property
    def known_empty(self) -> bool:
        """Whether it is empty, where the host can tell: inside a CUDA graph it cannot."""
        return self.memory.device.type == "cpu" and not int(self.filled)

    def stored(self, slots: Tensor) -> None:
        """Mark slots int64[L, E, …] as written during the current task; −1: none was."""
        flat = slots.flatten(1)
        self.fresh.scatter_(1, torch.where(flat < 0, self.memory.capacity, flat), 1.0)

    def extend(self) -> Batch:
        """Copy a uniform sample of the current task's experiences, with replacement; returns it."""
        ranks = self.fresh[:, :-1].cumsum(1)
        uniform = self.streams.uniform(Stream.KEY, self.size).to(torch.float32)
        slots = torch.searchsorted(ranks, (uniform * ranks[:, -1:]).contiguous(), right=True)
        slots = slots.clamp_max(self.memory.capacity - 1)
        first = int(self.filled)
        self.rows[:, first : first + self.size] = self.memory.arena.read(slots)
        self.filled += self.size
        self.fresh.zero_()
        return self.read(torch.arange(first, first + self.size, device=slots.device).expand(len(slots), -1))

    def sample(self, size: int) -> Batch:
        """A uniform sample of all experiences; zeros while there are none."""
        uniform = self.streams.uniform(Stream.DRAW, size)
        return self.read((uniform * self.filled).to(torch.int64))

    def read(self, index: Tensor) -> Batch:
        """The experiences at positions int64[L, B]; `Batch.index` are these positions."""
        rows = self.rows.gather(1, index[..., None].expand(-1, -1, self.rows.shape[-1]))
        return Batch(**self.memory.arena.unpack(rows), weight=torch.ones(index.shape, device=index.device), index=index)

    def tensors(self) -> dict[str, Tensor]:
        """Live tensors that make up the state."""
        own = {"rows": self.rows, "filled": self.filled, "fresh": self.fresh, "ticks": self.streams.ticks}
        return {f"archive.{name}": tensor for name, tensor in own.items()}
