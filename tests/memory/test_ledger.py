"""What ledgers share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from crystalrl import (
    CrystalMemory,
    CrystalParams,
    PrioritizedMemory,
    ReservoirMemory,
    Transition,
    UniformMemory,
)
from crystalrl.memory import ReplayMemory
from tests.experience import SMALL

LANES = 3
KINDS: dict[str, Callable[..., ReplayMemory]] = {
    "uniform": UniformMemory,
    "prioritized": PrioritizedMemory,
    "crystal": lambda capacity, **options: CrystalMemory(capacity, params=CrystalParams.repaired(), **options),
    **{f"reservoir {r}": lambda n, r=r, **options: ReservoirMemory(n, recent=r, **options) for r in (0, 0.1, 0.5, 1)},
}


def smallest(kind: str, extra: int, **options: Any) -> ReplayMemory:
    """A memory with `extra` slots more than the fewest allowed."""
    for capacity in range(1, 200):
        try:
            KINDS[kind](capacity, **options)
        except ValueError:
            continue
        return KINDS[kind](capacity + extra, **options)
    raise AssertionError("capacity: wanted one below 200, got none")


def random_steps(rng: np.random.Generator, envs: int, first: int) -> Transition:
    """Steps of all environments; observations are the numbers from `first` on."""
    shape = LANES, envs
    numbers = first + np.arange(LANES * envs, dtype=np.float32).reshape(shape)
    obs = np.stack([numbers, numbers], -1)
    return Transition(obs, np.zeros(shape, int), numbers, obs, rng.random(shape) < 0.2, rng.random(shape) < 0.2)


def refuse_repeated(slots: torch.Tensor) -> None:
    for lane in slots.reshape(LANES, -1):
        kept = lane[lane >= 0].tolist()
        assert len(set(kept)) == len(kept), kept


@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.parametrize(("envs", "n_step"), [(1, 1), (4, 1), (1, 3), (3, 4), (70, 1)])
@pytest.mark.parametrize("extra", [0, 1, 7])
def test_one_call_writes_no_slot_twice(kind: str, envs: int, n_step: int, extra: int) -> None:
    """Which of two rows of one slot would be stored is undefined on CUDA."""
    memory = smallest(kind, extra, **SMALL, lanes=LANES, envs=envs, n_step=n_step)
    rng = np.random.default_rng(envs + n_step)
    for call in range(40):
        valid = rng.random((LANES, envs)) < rng.choice([0.3, 0.9, 1.0])
        refuse_repeated(memory.add(random_steps(rng, envs, call * LANES * envs), valid=valid))
        if call % 5 == 0:
            refuse_repeated(memory.end_episode(rng.random((LANES, envs)) < 0.5))
        memory.check()


@pytest.mark.parametrize("recent", [0.0, 0.1, 0.3, 1.0])
def test_a_reservoir_holds_each_experience_in_the_slot_that_add_returned(recent: float) -> None:
    """Also where a later experience of the same call takes the place of an earlier one, which then has no slot."""
    envs, replaced = 9, 0
    memory = ReservoirMemory(10, **SMALL, recent=recent, lanes=LANES, envs=envs)
    rng = np.random.default_rng(1)
    for call in range(60):
        steps = random_steps(rng, envs, call * LANES * envs)
        slots = memory.add(steps)
        held = memory.arena.read_fields(slots.clamp_min(0), squeeze=False)["reward"]
        assert torch.equal(held[slots >= 0], torch.as_tensor(steps.reward)[slots >= 0])
        replaced += int((slots < 0).sum())
    assert (replaced > 0) == (recent < 0.9)


def test_check_names_a_negative_number_of_experiences() -> None:
    memory = UniformMemory(10, **SMALL)
    memory.ledger.number.fill_(-1)
    with pytest.raises(AssertionError, match=r"number: wanted values from 0 .* got -1"):
        memory.check()
