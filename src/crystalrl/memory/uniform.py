"""Uniform replay: the newest experiences, all equally likely (Lin 1992)."""

from __future__ import annotations

from typing import Unpack

import torch
from torch import Tensor

from crystalrl.memory.base import ReplayMemory
from crystalrl.memory.ledger import Draw, RingLedger
from crystalrl.memory.storage.spec import StorageOptions, StorageSpec
from crystalrl.random import Stream


class UniformLedger(RingLedger):
    """Every stored experience is equally likely; a new one replaces the oldest."""

    def draw(self, size: int, time: Tensor) -> Draw:
        slots = self.streams.integers(Stream.DRAW, size, self.count)
        return Draw(slots, slots.new_ones(slots.shape, dtype=torch.float32))


class UniformMemory(ReplayMemory):
    """Plain replay: the newest N experiences, drawn uniformly (Lin 1992)."""

    ledger: UniformLedger

    def __init__(self, capacity: int, **storage: Unpack[StorageOptions]) -> None:
        super().__init__(StorageSpec(capacity, **storage))
        self.ledger = UniformLedger(self.lanes, self.capacity, self.streams)
