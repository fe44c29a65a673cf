"""Small memories of every kind, and a life that depends on nothing but its number."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from crystalrl import (
    Batch,
    CrystalMemory,
    CrystalParams,
    Evaluation,
    PrioritizedMemory,
    ReservoirMemory,
    Transition,
    UniformMemory,
)
from crystalrl.memory import ReplayMemory

KINDS = ("uniform", "prioritized", "reservoir", "crystal")
SIZE = 400
"""Numbers in an observation."""


def small(kind: str, capacity: int, **options: Any) -> ReplayMemory:
    shared: dict[str, Any] = {"obs": (SIZE,), "action": 3, "seed": 1, **options}
    if kind == "crystal":
        params = CrystalParams.anchored(alpha=0.6, time_unit=100)
        return CrystalMemory(capacity, **shared, params=params, anchor={"q": (2,)})
    kinds = {"uniform": UniformMemory, "prioritized": PrioritizedMemory, "reservoir": ReservoirMemory}
    return kinds[kind](capacity, **shared)


def step(rng: np.random.Generator) -> Transition:
    obs, after = rng.normal(size=(2, SIZE)).astype(np.float32)
    return Transition(obs, int(rng.integers(3)), float(rng.normal()), after, bool(rng.random() < 0.1))


def live(memory: ReplayMemory) -> int:
    """One more step: what happens depends on the number of steps before. Returns that number."""
    number = int(memory.time[0]) + 1
    memory.add(step(np.random.default_rng(number)))
    memory.update(memory.sample(8).index, torch.arange(8.0) + number % 5)
    return number


def critic(batch: Batch) -> Evaluation:
    assert isinstance(batch.obs, torch.Tensor)
    return Evaluation(batch.reward, {"q": batch.obs[..., :2]})


def use(memory: ReplayMemory) -> None:
    """What a learner does next; raises if the state is not valid."""
    memory.check()
    rng = np.random.default_rng(0)
    for _ in range(3):
        batch = memory.sample(32)
        for value in (batch.obs, batch.next_obs, batch.reward, batch.discount, batch.weight):
            assert bool(torch.isfinite(value).all()), "a batch holds NaN or infinity"  # type: ignore[arg-type]
        assert 0 <= int(batch.index.min()) <= int(batch.index.max()) < memory.capacity
        assert 0 <= float(batch.weight.min()) <= float(batch.weight.max()) <= 1
        memory.update(batch.index, torch.from_numpy(rng.normal(size=batch.index.shape)))
        memory.add(step(rng))
    memory.consolidate(critic)
    memory.check()


def same(one: ReplayMemory, other: ReplayMemory) -> None:
    """Raise if two memories differ in a bit."""
    mine, theirs = one.state_dict(), other.state_dict()
    assert mine.keys() == theirs.keys()
    odd = [name for name, tensor in mine.items() if not torch.equal(tensor, theirs[name])]
    assert not odd, odd
