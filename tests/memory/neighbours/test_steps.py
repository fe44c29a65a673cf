"""The steps before and after an experience, in its own environment."""

from __future__ import annotations

import pytest
import torch

from crystalrl.memory.neighbours.steps import Trajectories
from tests.memory.neighbours.walks import graph_of, memory_of, refresh, walk

pytest.importorskip("faiss")


@pytest.mark.usefixtures("small")
def test_adjacent_steps_are_those_stored_next_to_it_of_the_same_environment() -> None:
    """At the ends of an environment's steps, steps of the next environment are adjacent; they are only candidates."""
    memory = memory_of(300, time_unit=60)
    walk(memory, 40, 0)
    view, envs, reach = memory.snapshot(), memory.spec.envs, Trajectories.reach
    assert bool((~view.occupied).any())  # some were evicted
    trajectories = Trajectories(view, envs)
    stored = view.occupied[0].nonzero()[:, 0]
    birth = view.birth[0]
    line = sorted(stored.tolist(), key=lambda slot: (int(birth[slot]) % envs, int(birth[slot]) // envs))
    found = trajectories.adjacent(torch.zeros_like(stored), stored)
    assert found.shape == (len(stored), 2 * reach)
    for slot, near in zip(stored.tolist(), found.tolist(), strict=True):
        place = line.index(slot)
        around = [*range(place - reach, place), *range(place + 1, place + reach + 1)]
        assert near == [line[at] if 0 <= at < len(line) else -1 for at in around]


@pytest.mark.usefixtures("small")
def test_the_next_step_is_the_successor_where_the_walk_went_on() -> None:
    memory = memory_of(300, time_unit=60)
    walk(memory, 40, 0)
    refresh(memory)
    view, states = memory.snapshot(), graph_of(memory).states
    trajectories, slots = Trajectories(view, memory.spec.envs), view.occupied[0].nonzero()[:, 0]
    adjacent = trajectories.adjacent(torch.zeros_like(slots), slots)
    found = trajectories.successor(states, 0, slots, adjacent).tolist()
    obs, after = view.fields["obs"][0], view.fields["next_obs"][0]
    went_on = 0
    for slot, step, place in zip(slots.tolist(), adjacent[:, trajectories.reach].tolist(), found, strict=True):
        same = step >= 0 and torch.equal(obs[step], after[slot])
        assert place == (slots.tolist().index(step) if same else -1)
        went_on += same
    assert went_on > 50
    assert went_on < len(slots)
