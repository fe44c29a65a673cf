"""Uniform replay: the newest experiences, all equally likely (Lin 1992)."""

from __future__ import annotations

from typing import Unpack

from crystalrl.memory.base import ReplayMemory
from crystalrl.memory.ledger import RingLedger
from crystalrl.memory.storage.spec import StorageOptions, StorageSpec


class UniformMemory(ReplayMemory):
    """Plain replay: the newest N experiences, drawn uniformly (Lin 1992)."""

    ledger: RingLedger

    def __init__(self, capacity: int, **storage: Unpack[StorageOptions]) -> None:
        super().__init__(StorageSpec.of(type(self), capacity, storage))
        self.ledger = RingLedger(self.lanes, self.capacity, self.streams)
        self.sampler = self.ledger.sampler()
