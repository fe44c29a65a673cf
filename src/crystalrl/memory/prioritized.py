"""Prioritized replay: draw in proportion to |TD error|^α, correct with importance weights (Schaul et al. 2016)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Unpack

import numpy as np
import torch
from torch import Tensor

from crystalrl.backends.protocols import Entry
from crystalrl.lanes import PerLane, lane_values, per_lane
from crystalrl.memory.base import ReplayMemory
from crystalrl.memory.ledger import RingLedger
from crystalrl.memory.sampling.checks import tree_problems
from crystalrl.memory.sampling.priority import Annealed, PriorityRule
from crystalrl.memory.sampling.sampler import WeightedSampler
from crystalrl.memory.sampling.strata import BatchStrata
from crystalrl.memory.sampling.sum_tree import SumTree
from crystalrl.memory.storage.checks import Named, Problems, between
from crystalrl.memory.storage.spec import StorageOptions, StorageSpec
from crystalrl.random import Streams

SMALLEST, LARGEST = torch.finfo(torch.float32).tiny, torch.finfo(torch.float32).max


@dataclass(frozen=True)
class PrioritizedParams:
    """Exponents of prioritized replay. A float holds for every lane; a sequence gives one per lane."""

    alpha: PerLane = 0.6
    """Exponent of |TD error| + epsilon in the draw weight; 0 draws uniformly."""
    beta: PerLane = 0.4
    """Exponent of the importance weight at the start; 1 corrects fully."""
    is_steps: int | None = None
    """Environment steps over which beta rises linearly to 1; None keeps it constant."""
    epsilon: float = 1e-6
    """Added to |TD error|, so that an experience with TD error 0 can still be drawn."""

    def __post_init__(self) -> None:
        for name in ("alpha", "beta"):
            for value in lane_values(getattr(self, name)):
                if not 0 <= value <= 1:
                    raise ValueError(f"{name}: wanted numbers in [0, 1], got {value}")
        if self.is_steps is not None and self.is_steps < 1:
            raise ValueError(f"is_steps: wanted a whole number ≥ 1 or None, got {self.is_steps}")
        if not 0 < self.epsilon < float("inf"):
            raise ValueError(f"epsilon: wanted a finite number > 0, got {self.epsilon}")
        if self.epsilon < 1 and self.epsilon ** max(lane_values(self.alpha)) < SMALLEST:
            raise ValueError(f"epsilon: wanted ε^alpha ≥ {SMALLEST:.3g}, a float32 above zero, got {self.epsilon}")


class PrioritizedLedger(RingLedger):
    """Draw weights in a sum tree. Invariant: a slot has a positive weight exactly if it is occupied."""

    def __init__(self, lanes: int, slots: int, streams: Streams, params: PrioritizedParams) -> None:
        super().__init__(lanes, slots, streams)
        device = streams.device
        self.tree = SumTree(lanes, slots, 1, device)
        self.beta = Annealed(per_lane("beta", params.beta, lanes, device), params.is_steps)
        self.max_priority = torch.ones(lanes, dtype=torch.float32, device=device)
        """Largest draw weight so far, given to new experiences."""
        self.rule = PriorityRule(params.epsilon, per_lane("alpha", params.alpha, lanes, device), self.max_priority)
        self._filled = torch.zeros(lanes, 1, dtype=torch.float64, device="cpu")
        self._filled_column = self._filled.numpy()[:, 0]

    @property
    def nbytes(self) -> int:
        return self.tree.nbytes + self.max_priority.nbytes

    def commit(self, slots: Tensor, c: Tensor | None = None) -> None:
        self.tree.commit(slots, self.rule)

    @cached_property
    def _entry(self) -> Entry:
        return self.backend.entry(self.number, self.slots, tree=self.tree.nodes, rule=self.rule)

    def sampler(self) -> WeightedSampler:
        whole = BatchStrata((1.0,), "largest_remainder")
        return WeightedSampler(self.streams, self, self.tree, self.rule, whole, self.beta)

    @property
    def filled(self) -> Tensor:
        """float64[L, 1]: number of occupied slots."""
        if not self.backend.on_host:
            return self.count[:, None].to(torch.float64)
        np.minimum(self._number, self.slots, out=self._filled_column, casting="unsafe")
        return self._filled

    def tensors(self) -> dict[str, Tensor]:
        return {**super().tensors(), "highest": self.max_priority, **self.tree.tensors()}

    def refresh(self) -> None:
        self.tree.rebuild()

    def clear(self) -> None:
        super().clear()
        self.tree.clear()
        self.max_priority.fill_(1.0)

    def forget_draws(self) -> None:
        self.tree.forget_draws()

    def problems(self, state: Named, width: int) -> Problems:
        yield from super().problems(state, width)
        yield from between("highest", state["highest"], SMALLEST, LARGEST)
        occupied = torch.arange(width, device=state["number"].device) < state["number"][:, None]
        yield from tree_problems(state, occupied)

    def check(self) -> None:
        super().check()
        self.tree.check()


class PrioritizedMemory(ReplayMemory):
    """Prioritized replay (Schaul et al. 2016). `PrioritizedParams` documents the exponents."""

    params: PrioritizedParams
    ledger: PrioritizedLedger

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
        params = PrioritizedParams(alpha, beta, is_steps, epsilon)
        super().__init__(StorageSpec.of(type(self), capacity, storage))
        self.params = params
        self.ledger = PrioritizedLedger(self.lanes, self.capacity, self.streams, params)
        self.sampler = self.ledger.sampler()
