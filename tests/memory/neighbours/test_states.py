"""Vectors of stored states."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from crystalrl import CrystalMemory, CrystalParams, Transition
from crystalrl.memory.neighbours.states import StateVectors
from tests.memory.neighbours.walks import graph_of, refresh

pytest.importorskip("faiss")


@pytest.mark.usefixtures("small")
def test_states_of_many_dimensions_are_compared_by_their_projection() -> None:
    memory = CrystalMemory(400, obs=(80,), action=4, params=CrystalParams.anchored(), seed=0, envs=10)
    rng = np.random.default_rng(0)
    state = rng.normal(size=(10, 80)).astype(np.float32)
    for _ in range(60):
        following = (0.98 * state + 0.2 * rng.normal(size=state.shape)).astype(np.float32)
        memory.add(Transition(state, rng.integers(0, 4, 10), rng.normal(size=10), following, np.zeros(10, bool)))
        state = following
        if memory.due:
            memory.consolidate(lambda batch: batch.reward)
    refresh(memory)
    states, stored = graph_of(memory).states, memory.ledger.phase[0] > 0
    projected = memory.features.states(memory.arena.unpack(memory.arena.rows)["obs"])
    assert torch.equal(states.copies["obs"][0, stored], projected[0, stored])
    assert states.size == 32


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("action", [4, (2,)])
def test_a_memory_with_lists_that_was_cleared_can_be_consolidated(action: int | tuple[int, ...]) -> None:
    memory = CrystalMemory(40, obs=(3,), action=action, seed=0, envs=10)
    rng = np.random.default_rng(0)
    acted = rng.integers(0, 4, 10) if isinstance(action, int) else rng.normal(size=(10, *action)).astype(np.float32)
    for _ in range(6):
        seen, follows = rng.normal(size=(2, 10, 3)).astype(np.float32)
        memory.add(Transition(seen, acted, rng.normal(size=10), follows, np.zeros(10, bool)))
    memory.consolidate(lambda batch: batch.reward)
    graph_of(memory)
    memory.clear()
    memory.consolidate(lambda batch: batch.reward)
    assert len(memory) == 0
    memory.check()


def test_the_loops_read_rows_with_the_vectors_of_every_lane() -> None:
    memory = CrystalMemory(50, obs=(2, 3), action=(2,), lanes=3, seed=0, envs=10)
    rng = np.random.default_rng(0)
    seen, follows = rng.normal(size=(2, 3, 10, 2, 3)).astype(np.float32)
    acted, ends = rng.normal(size=(3, 10, 2)).astype(np.float32), np.zeros((3, 10), bool)
    memory.add(Transition(seen, acted, rng.normal(size=(3, 10)), follows, ends))
    states = StateVectors(memory.features, memory.arena)
    for lane in range(3):
        (after, begin), (before, first), scale = states.space("next_obs", lane)
        actions, start = states.labels(lane)[2]
        assert after.flags.c_contiguous
        assert scale.tolist() == [1.0] * 6
        assert np.array_equal(before[:10, first : first + 6], seen[lane].reshape(10, 6))
        assert np.array_equal(after[:10, begin : begin + 6], follows[lane].reshape(10, 6))
        assert np.array_equal(actions[:10, start : start + 2], acted[lane])
