"""Lists of similar experiences, updated by compiled loops on CPU; `Lists.offer` with a class is the reference."""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from crystalrl.dynamics import LIQUID
from crystalrl.memory.neighbours.experiences import Outcomes
from crystalrl.memory.neighbours.lists import Lists
from crystalrl.memory.neighbours.states import StateVectors


@dataclass(frozen=True, eq=False)
class SimilarLists:
    """The lists of one lane, and what the loops read to compare its experiences."""

    loops: ModuleType
    """`numba_similar`"""
    lists: Lists
    states: StateVectors
    lane: int
    epsilon: Tensor
    """float32[L, 1]"""
    rule: str
    outcomes: Outcomes
    delta_r: Tensor
    """float32[L, 1]"""

    def offer(self, slots: Tensor, candidates: Any) -> None:
        """Let the lists of slots int64[P] keep the nearest of what they hold and the candidates int32[P, T]."""
        self.loops.offer(*self._inputs, slots.numpy(), candidates)

    def offer_back(self, slots: Tensor, near: Any, visited: Tensor) -> None:
        """Offer slots int64[P] to the lists of those of near int32[P, T] within ε, which become visited bool[W]:
        similarity is symmetric."""
        self.loops.offer_back(*self._inputs, slots.numpy(), near, visited.numpy())

    @property
    def _inputs(self) -> tuple[Any, ...]:
        """Lists, labels, how and classes, as the loops take them."""
        features, summed = self.states.features, self.rule == "exists"
        how = (self.epsilon[self.lane].numpy()[0], features.discrete, summed)
        return self.lists.index[self.lane].numpy(), self.states.labels(self.lane), how, self._classes

    @property
    def _classes(self) -> tuple[int, Any, Any]:
        """The classes of `contradiction.neighbour_class`."""
        own, delta = self.outcomes, self.delta_r[self.lane].numpy()[0]
        kinds: dict[str, tuple[int, Tensor]] = {
            "fresh_mean": (self.loops.FLAGGED, (own.phase == LIQUID).to(torch.uint8)),
            "newer_majority": (self.loops.GREATER, own.birth),
            "exists": (self.loops.APART, own.reward),
        }
        kind, values = kinds[self.rule]
        return kind, values[self.lane].contiguous().numpy(), delta
