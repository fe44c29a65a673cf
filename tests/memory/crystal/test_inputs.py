"""Arguments are checked before anything changes."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from crystalrl import CrystalParams
from tests.experience import assert_same_state
from tests.memory.crystal.experience import by_reward, feed, memory_of, snapshot, stream


@pytest.mark.parametrize("bad", [-0.1, 1.1, float("nan"), [0.5, 0.5], "much"])
def test_crystallization_outside_the_unit_interval_or_misshapen_is_refused(bad: Any) -> None:
    memory = memory_of(16)
    feed(memory, 4)
    before = snapshot(memory)
    with pytest.raises((ValueError, TypeError)):
        memory.add(next(stream(1)), crystallization=bad)
    assert_same_state(before, memory.state_dict())
    feed(memory, 1)
    assert float(memory.ledger.c.max()) == 0  # nothing of the refused value is left


@pytest.mark.parametrize("bad", [[5], [-1], [16], [0, 9], [[0]], [0.0]])
def test_pinning_what_is_not_there_is_refused(bad: Any) -> None:
    memory = memory_of(16)
    feed(memory, 4)
    before = snapshot(memory)
    with pytest.raises(ValueError, match="pin: wanted"):
        memory.pin(torch.tensor(bad))
    assert_same_state(before, memory.state_dict())


def test_pinning_an_evicted_slot_is_refused_even_if_it_was_drawn() -> None:
    memory = memory_of(32, CrystalParams.repaired(alpha=0.0))
    feed(memory, 32)
    memory.sample(32)
    memory.consolidate(by_reward)
    gone = [slot for slot in range(32) if int(memory.ledger.phase[0, slot]) == 0]
    with pytest.raises(ValueError, match="pin: wanted"):
        memory.pin(torch.tensor(gone[:1]))


@pytest.mark.parametrize("bad", [float("nan"), [1.0, 2.0, 3.0]])
def test_a_wrong_return_is_refused_before_anything_is_stored(bad: Any) -> None:
    memory = memory_of(32, n_step=3)
    feed_steps = list(stream(2, terminated=False))
    for transition in feed_steps:
        memory.add(transition)
    before = snapshot(memory)
    with pytest.raises(ValueError, match="episode_return: wanted finite numbers"):
        memory.end_episode(episode_return=bad)
    assert_same_state(before, memory.state_dict())
