"""How many experiences one may draw: any number, from any number of stored ones, but not from none."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.peers.subjects import every_subject


@every_subject
@pytest.mark.parametrize("size", [1, 7, 100])
def test_a_batch_may_be_larger_than_the_buffer(kind: Any, size: int) -> None:
    subject = kind(8)
    for number in range(5):
        subject.add(number)
    drawn = subject.draw(size)
    assert drawn.obs.shape == (size, 2)
    assert drawn.weight.shape == drawn.index.shape == drawn.reward.shape == (size,)
    assert set(drawn.reward) <= {0.0, 1.0, 2.0, 3.0, 4.0}
    assert np.isfinite(drawn.weight).all()
    assert (drawn.weight > 0).all()


@every_subject
def test_a_large_batch_reaches_every_stored_experience_and_nothing_else(kind: Any) -> None:
    subject = kind(8)
    for number in range(5):
        subject.add(number)
    assert set(subject.draw(1000).reward) == {0.0, 1.0, 2.0, 3.0, 4.0}


@every_subject
def test_a_full_buffer_gives_whole_transitions_also_after_many_rewrites(kind: Any) -> None:
    subject = kind(8)
    for number in range(50):
        subject.add(number)
    drawn = subject.draw(500)
    assert len(subject.memory) <= 8
    assert 1 <= len(set(drawn.reward)) <= 8
    np.testing.assert_array_equal(drawn.obs, np.stack([drawn.reward] * 2, 1))
    np.testing.assert_array_equal(drawn.next_obs, drawn.obs + 1)


@every_subject
def test_nothing_can_be_drawn_from_an_empty_buffer(kind: Any) -> None:
    with pytest.raises((ValueError, RuntimeError), match="wanted"):
        kind(8).draw(4)
