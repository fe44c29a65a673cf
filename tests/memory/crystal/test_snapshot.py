"""Which experiences a consolidation sees, and how much time it covers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

from crystalrl import Batch, CrystalParams, Transition
from tests.memory.crystal.experience import by_reward, feed, memory_of, stream

STILL: dict[str, Any] = {"sigma": 0.0, "interference": "none", "boost": False}


def ones(batch: Batch) -> torch.Tensor:
    return torch.ones_like(batch.reward)


@pytest.mark.parametrize("clock", ["steps", "calls"])
def test_slices_move_every_experience_by_the_same_total_time(clock: str) -> None:
    """Without noise, constant utility: after a whole round both have moved all c to the same place."""
    ends = {}
    for slices in (1, 4):
        params = CrystalParams.repaired(
            **STILL, alpha=0.2, leak=0.05, w1=1.0, w2=0.0, w3=0.0, scale="q95", time_unit=10, slices=slices,
            clock=clock, phases=False,
        )  # fmt: skip
        memory = memory_of(40, params)
        feed(memory, 40)
        for _ in range(8):
            memory.time += 5
            memory.consolidate(ones)
        memory.time += 0
        ends[slices] = memory.ledger.c.clone(), memory.ledger.updated.clone()
    whole, turns = ends[1], ends[4]
    last = turns[1] == whole[1]
    assert int(last.sum()) == 10  # those whose turn was the last
    torch.testing.assert_close(turns[0][last], whole[0][last])
    late = (whole[1] - turns[1]).double() / (1 if clock == "calls" else 10)
    decayed = 0.8 + (turns[0] - 0.8) * torch.exp(-0.25 * late)  # λ = .25, c* = .8: what is still to come
    torch.testing.assert_close(decayed.float(), whole[0], atol=1e-6, rtol=1e-5)


def test_slices_evaluate_a_part_in_turn_and_newcomers_at_once() -> None:
    memory = memory_of(40, CrystalParams.repaired(slices=4, time_unit=10))
    feed(memory, 20)
    assert memory.consolidate(by_reward).values["evaluated"][0] == 20
    assert memory.consolidate(by_reward).values["evaluated"][0] == 5
    feed(memory, 3, seed=1)
    assert 5 <= memory.consolidate(by_reward).values["evaluated"][0] <= 8


def test_time_is_counted_in_valid_transitions() -> None:
    memory = memory_of(32, CrystalParams.repaired(**STILL, alpha=0.1, w1=1.0, w2=0.0, w3=0.0, scale="q95", time_unit=4))
    feed(memory, 1)
    for transition in stream(7, seed=1):
        memory.add(transition, valid=False)
    feed(memory, 4, seed=2)
    memory.consolidate(ones)
    assert float(memory.ledger.c[0, 0]) == pytest.approx(1 - math.exp(-0.1))


def test_empty_slots_of_a_large_memory_change_nothing() -> None:
    """Slots beyond the last occupied are not looked at; what happens is what happens in a memory without them."""
    params = CrystalParams.repaired(time_unit=50, every=50, interference="none", w3=0.0, capacity=(1.0, 0.0, 0.0))
    large, small = memory_of(20_000, params), memory_of(9_000, params)
    for _ in range(3):
        for memory in (large, small):
            source = np.random.default_rng(5)
            for _ in range(50):
                obs = source.normal(size=2).astype(np.float32)
                memory.add(Transition(obs, 1, float(source.normal()), obs, False))
        planned = large.plan(by_reward)
        assert planned.phase.shape == (1, 4096)
        large.apply(planned)
        small.consolidate(by_reward)
        for name in ("c", "utility", "phase"):
            assert torch.equal(getattr(large.ledger, name)[0, :9000], getattr(small.ledger, name)[0]), name
    large.check()
