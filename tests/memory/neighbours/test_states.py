"""Vectors of stored states."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from crystalrl import CrystalMemory, CrystalParams, Transition
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
