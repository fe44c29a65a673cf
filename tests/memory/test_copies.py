"""A pickled or copied memory goes on like the original, and apart from it."""

from __future__ import annotations

import pickle
from copy import deepcopy
from typing import Any

import pytest

from tests.chaos.small import KINDS, critic, draws, draws_in_process, fill, small
from tests.experience import assert_same_state


@pytest.mark.parametrize("way", [deepcopy, lambda memory: pickle.loads(pickle.dumps(memory))], ids=["copy", "pickle"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_copy_draws_what_the_original_would_and_shares_nothing(kind: str, way: Any) -> None:
    memory = small(kind, 64, n_step=2)
    fill(memory, 40)
    memory.consolidate(critic)
    copy, before = way(memory), memory.state_dict()
    draws(copy, 40)
    assert_same_state(before, memory.state_dict())
    again = way(memory)
    assert draws(again, 40) == draws(memory, 40)


@pytest.mark.parametrize("kind", [pytest.param("uniform", marks=pytest.mark.slow), "crystal"])
def test_a_memory_can_be_given_to_a_spawned_process(kind: str) -> None:
    memory = small(kind, 64)
    fill(memory, 40)
    assert draws_in_process(memory, "spawn") == draws(memory)
