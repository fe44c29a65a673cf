"""Small memories of every kind, and a life that depends on nothing but its number."""

from __future__ import annotations

import multiprocessing
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
from tests.experience import assert_same_state

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


def fill(memory: ReplayMemory, steps: int, seed: int = 0) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        memory.add(step(rng))


def live(memory: ReplayMemory) -> int:
    """One more step: what happens depends on the number of steps before. Returns that number."""
    number = int(memory.time[0]) + 1
    memory.add(step(np.random.default_rng(number)))
    memory.update(memory.sample(8).index, torch.arange(8.0) + number % 5)
    return number


def critic(batch: Batch) -> Evaluation:
    assert isinstance(batch.obs, torch.Tensor)
    return Evaluation(batch.reward, {"q": batch.obs[..., :2]})


def draws(memory: ReplayMemory, count: int = 5, answers: Any = None) -> list[tuple[list[int], list[float]]]:
    """Slots and weights of the next batches, with a step before each; also put into a queue, if there is one."""
    found = []
    for _ in range(count):
        live(memory)
        batch = memory.sample(16)
        found.append((batch.index.tolist(), batch.weight.tolist()))
    memory.check()
    if answers is not None:
        answers.put(found)
    return found


def draws_in_process(memory: ReplayMemory, method: str) -> list[tuple[list[int], list[float]]]:
    """`draws` of a memory that was given to another process, which is started with that method."""
    context: Any = multiprocessing.get_context(method)
    answers = context.Queue()
    child = context.Process(target=draws, args=(memory, 5, answers))
    child.start()
    there: list[tuple[list[int], list[float]]] = answers.get(timeout=120)
    child.join(60)
    assert child.exitcode == 0, child.exitcode
    return there


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
    assert_same_state(one.state_dict(), other.state_dict())
