"""The machines of tests/memory for backends that do not work on NumPy views: torch and Triton.

Such a backend computes the same up to rounding, so the twin goes on from the memory's numbers. Which of several TD
errors of one slot counts is not defined, so a slot has one. An update of empty slots is reported by the next check.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from tests.chaos.plans import Planning
from tests.experience import assert_close
from tests.memory import test_machines as classic
from tests.reference import PrioritizedTwin

WRONG_SLOT = "wrong action or slot was given"
"""Part of the message of the next check."""


def per_slot(slots: np.ndarray, capacity: int, rng: np.random.Generator) -> np.ndarray:
    """Numbers [L, B] that depend on the slot [L, B]."""
    return np.take_along_axis(rng.normal(size=(len(slots), capacity)), slots, axis=1)


class OffHostClassic(classic.Machine):
    """Uniform, prioritized, reservoir."""

    def errors_of(self, slots: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return per_slot(slots, self.memory.capacity, rng)

    def compare_weights(self, given: torch.Tensor, wanted: list[float]) -> None:
        assert_close(given, wanted, rtol=1e-5, name="weight")

    def compare_priorities(self, lane: int, twin: PrioritizedTwin, slots: list[int]) -> None:
        ledger = self.memory.ledger
        held = ledger.tree.weight[lane, : len(slots)].cpu()
        assert_close(held, [twin.weights[s] for s in slots], rtol=1e-6, name="priority")
        assert_close(ledger.max_priority[lane], twin.highest, rtol=1e-6, name="highest priority")
        twin.weights = dict(zip(slots, held.numpy(), strict=True))
        twin.highest = np.float32(ledger.max_priority[lane].item())


class OffHostCrystal(Planning):
    """Crystal memories."""

    def draw_errors(self, slots: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return per_slot(slots, self.memory.capacity, rng)

    def refuse_update(self, index: torch.Tensor, td_error: Any) -> None:
        """The error is reported until the memory is cleared."""
        self.memory.update(index, td_error)
        for _ in range(2):
            with pytest.raises(ValueError, match=WRONG_SLOT):
                self.memory.check()
        self.memory.clear()
        for twin in self.twins:
            twin.clear()
        self.steps = 0
