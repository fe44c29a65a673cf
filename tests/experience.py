"""Experiences for tests: random steps, the transitions made of them, and what it means that two things are the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch.distributions import Normal

from crystalrl import Batch, Memory, PrioritizedMemory, ReservoirMemory, Transition, UniformMemory
from crystalrl.memory import ReplayMemory
from tests.reference import Step

MEMORIES = (UniformMemory, PrioritizedMemory, ReservoirMemory)
SMALL: dict[str, Any] = {"obs": (2,), "action": 4}
"""Structure of the steps that `simple` makes."""
FIELDS = ("obs", "action", "reward", "next_obs", "discount", "weight", "index", "context")


def simple(number: int, *, ends: bool = False, cut: bool = False, context: int | None = None) -> Transition:
    """Step `number` of one environment with obs=(2,) and action=4; the number determines all its fields."""
    return Transition(
        np.full(2, number, np.float32),
        number % 4,
        float(number),
        np.full(2, number + 1, np.float32),
        ends,
        cut,
        context,
    )


def random_step(rng: np.random.Generator, mixed: bool = False, context: bool = False, ending: float = 0.1) -> Step:
    """A step with obs=(3,) and action=5, or, if mixed, with the dict observation and box action of `MIXED`."""
    return Step(
        obs=random_obs(rng, mixed),
        action=rng.normal(size=2).astype(np.float32) if mixed else int(rng.integers(5)),
        reward=float(rng.normal()),
        next_obs=random_obs(rng, mixed),
        terminated=bool(rng.random() < ending),
        truncated=bool(rng.random() < ending),
        context=int(rng.integers(-3, 9)) if context else None,
    )


PLAIN: dict[str, Any] = {"obs": (3,), "action": 5}
MIXED: dict[str, Any] = {
    "obs": {"pixels": (2, 2), "arm": (3,), "door": ()},
    "obs_dtype": {"pixels": torch.uint8, "arm": torch.float64, "door": torch.bool},
    "action": (2,),
}


def random_obs(rng: np.random.Generator, mixed: bool) -> Any:
    if not mixed:
        return rng.normal(size=3).astype(np.float32)
    return {
        "pixels": rng.integers(0, 256, (2, 2), dtype=np.uint8),
        "arm": rng.normal(size=3),
        "door": np.bool_(rng.random() < 0.5),
    }


def stacked(steps: list[list[Step]], lanes: int | None) -> Transition:
    """Steps [L][E] as one transition with [L, E, …] fields, or [E, …] without lanes."""

    def stack(values: list[list[Any]]) -> Any:
        if isinstance(values[0][0], dict):
            return {name: stack([[v[name] for v in row] for row in values]) for name in values[0][0]}
        array = np.array(values)
        return array[0] if lanes is None else array

    columns = {name: stack([[getattr(s, name) for s in row] for row in steps]) for name in Step.__dataclass_fields__}
    if steps[0][0].context is None:
        columns["context"] = None
    return Transition(**columns)


def assert_same_state(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> None:
    """Every tensor is the same to the last bit."""
    assert set(one) == set(other)
    for name, tensor in one.items():
        assert torch.equal(tensor, other[name]), name


def assert_close(got: torch.Tensor, wanted: Any, rtol: float, atol: Any = 0.0, name: str = "") -> None:
    """The shapes agree, and |got − wanted| ≤ atol + rtol·|wanted|. For millions of comparisons: NumPy's own is slow."""
    given, numbers = got.cpu().numpy(), np.asarray(wanted)
    assert given.shape == numbers.shape, f"{name}: wanted the shape {numbers.shape}, got {given.shape}"
    assert (np.abs(given - numbers) <= atol + rtol * np.abs(numbers)).all(), f"{name}: wanted {numbers}, got {given}"


def assert_same_batch(one: Batch, other: Batch) -> None:
    for name in FIELDS:
        assert_same_value(getattr(one, name), getattr(other, name), name)


def assert_same_value(one: Any, other: Any, name: str) -> None:
    if isinstance(one, dict):
        assert set(one) == set(other), name
        for key in one:
            assert_same_value(one[key], other[key], f"{name}.{key}")
    elif one is None:
        assert other is None, name
    else:
        assert one.dtype == other.dtype, name
        assert torch.equal(one, other), name


def part_of(batch: Batch, lane: int) -> Batch:
    """The batch of one lane."""

    def pick(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: v[lane] for name, v in value.items()}
        return None if value is None else value[lane]

    return Batch(**{name: pick(getattr(batch, name)) for name in FIELDS})


def feed(memory: Memory, count: int, first: int = 0) -> None:
    """Give a memory with obs=(2,) and action=4 the steps first, first + 1, …"""
    for number in range(first, first + count):
        memory.add(simple(number))


def numbers_of(memory: ReplayMemory, lane: int = 0) -> list[int]:
    """The number of the experience in each occupied slot; see `simple`."""
    stored = memory.arena.unpack(memory.arena.rows[lane, : int(memory.ledger.count[lane])])
    return [int(x) for x in stored["obs"][:, 0]]


def bhattacharyya(one: Normal, other: Normal) -> torch.Tensor:
    """−log ∫√(p·q) of normal distributions, from its textbook form."""
    variance = (one.variance + other.variance) / 2
    return (one.mean - other.mean) ** 2 / (8 * variance) + torch.log(variance / (one.stddev * other.stddev)) / 2
