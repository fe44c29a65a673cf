"""Uniform replay: the newest experiences, all equally likely."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from crystalrl import UniformMemory
from tests.experience import SMALL, feed, numbers_of

LEAST_P = 1e-3


def test_uniform_memory_keeps_the_newest() -> None:
    memory = UniformMemory(10, **SMALL)
    feed(memory, 34)
    assert sorted(numbers_of(memory)) == list(range(24, 34))


@pytest.mark.parametrize("stored", [1, 7, 50])
def test_uniform_draws_are_uniform_over_what_is_stored(backend: str, stored: int) -> None:
    memory = UniformMemory(50, **SMALL)
    feed(memory, stored)
    seen = np.zeros(stored)
    for _ in range(400):
        batch = memory.sample(50)
        np.add.at(seen, batch.index.numpy(), 1)
        assert batch.weight.tolist() == [1.0] * 50
    assert seen.sum() == 20_000
    assert stored == 1 or stats.chisquare(seen).pvalue > LEAST_P


def test_successive_batches_are_independent() -> None:
    memory = UniformMemory(16, **SMALL)
    feed(memory, 16)
    table = np.zeros((16, 16))
    before = memory.sample(16).index.numpy()
    for _ in range(1_000):
        now = memory.sample(16).index.numpy()
        np.add.at(table, (before, now), 1)
        before = now
    assert stats.chi2_contingency(table).pvalue > LEAST_P
