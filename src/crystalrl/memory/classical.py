"""The three classical memories: uniform, prioritized, reservoir."""

from __future__ import annotations

from typing import Unpack

from crystalrl.lanes import PerLane
from crystalrl.memory.base import ReplayMemory
from crystalrl.memory.ledger import UniformLedger
from crystalrl.memory.prioritized import PrioritizedLedger, PrioritizedParams
from crystalrl.memory.reservoir import ReservoirLedger, ReservoirParams
from crystalrl.memory.storage.spec import StorageOptions, StorageSpec


class UniformMemory(ReplayMemory):
    """Plain replay: the newest N experiences, drawn uniformly (Lin 1992)."""

    def __init__(self, capacity: int, **storage: Unpack[StorageOptions]) -> None:
        super().__init__(StorageSpec(capacity, **storage))
        self.ledger = UniformLedger(self.lanes, self.capacity, self.streams)


class PrioritizedMemory(ReplayMemory):
    """Prioritized replay (Schaul et al. 2016). `PrioritizedParams` documents the exponents."""

    def __init__(
        self,
        capacity: int,
        *,
        alpha: PerLane = 0.6,
        beta: PerLane = 0.4,
        is_steps: int | None = None,
        epsilon: float = 1e-6,
        **storage: Unpack[StorageOptions],
    ) -> None:
        super().__init__(StorageSpec(capacity, **storage))
        self.params = PrioritizedParams(alpha, beta, is_steps, epsilon)
        self.ledger = PrioritizedLedger(self.lanes, self.capacity, self.streams, self.params)


class ReservoirMemory(ReplayMemory):
    """The most recent experiences and a uniform sample of everything older. `ReservoirParams` documents the shares."""

    def __init__(
        self,
        capacity: int,
        *,
        recent: float = 0.5,
        recent_batch: float = 0.5,
        **storage: Unpack[StorageOptions],
    ) -> None:
        super().__init__(StorageSpec(capacity, **storage))
        self.params = ReservoirParams(recent, recent_batch)
        self.ledger = ReservoirLedger(self.lanes, self.capacity, self.streams, self.params)
