"""Spaces become shapes and dtypes, and what they cannot store is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st

from crystalrl import CrystalMemory, PrioritizedMemory, Transition, UniformMemory
from crystalrl.memory import ReplayMemory
from crystalrl.memory.storage.spec import StorageSpec, storage_from_json, storage_to_json
from tests.experience import MEMORIES
from tests.memory.storage.structures import DTYPES, actions, parts, spec_of

NAN, INF = float("nan"), float("inf")

SMALL: dict[str, Any] = {"obs": (2,), "action": 4}


OPTIONS: dict[str, tuple[dict[str, Any], str]] = {
    "no capacity": ({"capacity": 0}, "^capacity: wanted a whole number ≥ 1, got 0"),
    "negative capacity": ({"capacity": -5}, "^capacity: .*got -5"),
    "half a slot": ({"capacity": 2.5}, "^capacity: .*got 2.5"),
    "capacity True": ({"capacity": True}, "^capacity: .*got True"),
    "no environments": ({"envs": 0}, "^envs: wanted a whole number ≥ 1, got 0"),
    "no lanes": ({"lanes": 0}, "^lanes: wanted a whole number ≥ 1, got 0"),
    "no steps": ({"n_step": 0}, "^n_step: wanted a whole number ≥ 1, got 0"),
    "gamma above one": ({"gamma": 1.1}, r"^gamma: wanted a number in \[0, 1\], got 1.1"),
    "gamma NaN": ({"gamma": NAN}, "^gamma: .*got nan"),
    "too many windows": (
        {"capacity": 5, "envs": 2, "n_step": 3},
        "^capacity: wanted at least envs × n_step = 6 slots, got 5",
    ),
    "shape as a number": ({"obs": 3}, r"^obs: wanted a shape such as \(17,\), got 3"),
    "shape as a list": ({"obs": [3]}, r"^obs: wanted a shape .*got \[3\]"),
    "an axis of zero": ({"obs": (3, 0)}, r"^obs: wanted a shape .*got \(3, 0\)"),
    "part of zero": ({"obs": {"a": (0,)}}, r"^obs a: wanted a shape"),
    "no actions": ({"action": 0}, "^action: wanted a whole number ≥ 1, got 0"),
    "action axis of zero": ({"action": (0,)}, r"^action: wanted a shape .*got \(0,\)"),
    "complex observations": ({"obs_dtype": torch.complex64}, "^obs_dtype: wanted one of float16.*got torch.complex64"),
    "NumPy dtype": ({"obs_dtype": np.float32}, "^obs_dtype: wanted one of"),
    "dtypes of other parts": (
        {"obs": {"a": (2,)}, "obs_dtype": {"b": torch.float32}},
        r"^obs_dtype: wanted the keys of obs \['a'\], got \['b'\]",
    ),
    "too few seeds": ({"lanes": 3, "seed": [1, 2]}, "^seed: wanted one integer, or 3 integers .*got 2"),
    "negative seed": ({"seed": -1}, "^seed: wanted integers ≥ 0"),
    "seed beyond 63 bits": ({"seed": 2**63}, "^seed: wanted integers"),
    "a stack of no frames": ({"stack": 0}, "^stack: wanted a whole number ≥ 1, got 0"),
    "a stack True": ({"stack": True}, "^stack: wanted a whole number ≥ 1, got True"),
    "a stack of another length": (
        {"obs": (4, 8, 8), "stack": 3},
        r"^stack: wanted observations whose first axis is a multiple of 3, got the shape \(4, 8, 8\)",
    ),
    "a stack of a number": ({"obs": (), "stack": 1}, r"^stack: wanted observations .*got the shape \(\)"),
    "a stack of dict observations": (
        {"obs": {"a": (4, 2)}, "stack": 4},
        r"^stack: wanted one box observation, got a dict of \['a'\]",
    ),
    "a stack on a GPU": ({"stack": 2, "device": "cuda"}, "^stack: wanted device cpu, with deliver='cuda' for"),
}


@pytest.mark.parametrize("kind", MEMORIES)
@pytest.mark.parametrize("name", OPTIONS)
def test_a_memory_that_makes_no_sense_is_not_built(kind: type[ReplayMemory], name: str) -> None:
    options, message = OPTIONS[name]
    with pytest.raises(ValueError, match=message):
        kind(**{"capacity": 10, **SMALL, **options})


@given(kinds=parts, action=actions, action_dtype=st.sampled_from(DTYPES), context=st.booleans())
def test_structure_survives_json(kinds: dict[str, Any], action: Any, action_dtype: torch.dtype, context: bool) -> None:
    spec = spec_of(kinds, action, action_dtype, context)
    assert StorageSpec(**storage_from_json(storage_to_json(spec))) == spec


def test_a_stack_is_in_the_structure_only_if_there_is_one() -> None:
    spec = StorageSpec(10, obs=(4, 2), action=2, stack=4)
    assert StorageSpec(**storage_from_json(storage_to_json(spec))) == spec
    assert "stack" not in storage_to_json(StorageSpec(10, obs=(4, 2), action=2))


ONE = spaces.Discrete(3)


OBSERVATIONS: dict[str, tuple[spaces.Space[Any], Any, Any]] = {
    "box": (spaces.Box(-1, 1, (4,), np.float32), (4,), torch.float32),
    "float64 box": (spaces.Box(-1, 1, (4,), np.float64), (4,), torch.float32),
    "float16 box": (spaces.Box(-1, 1, (4,), np.float16), (4,), torch.float16),
    "pixels": (spaces.Box(0, 255, (3, 8, 8), np.uint8), (3, 8, 8), torch.uint8),
    "scalar box": (spaces.Box(0, 1, (), np.float32), (), torch.float32),
    "discrete": (spaces.Discrete(7), (), torch.int64),
    "discrete from three": (spaces.Discrete(7, start=3), (), torch.int64),
    "multi binary": (spaces.MultiBinary(5), (5,), torch.int8),
    "multi binary grid": (spaces.MultiBinary([2, 3]), (2, 3), torch.int8),
    "multi discrete": (spaces.MultiDiscrete([3, 4]), (2,), torch.int64),
    "dict": (
        spaces.Dict({"z": spaces.Box(0, 255, (2, 2), np.uint8), "a": spaces.Discrete(3), "m": spaces.MultiBinary(2)}),
        {"a": (), "m": (2,), "z": (2, 2)},
        {"a": torch.int64, "m": torch.int8, "z": torch.uint8},
    ),
}


ACTIONS: dict[str, tuple[spaces.Space[Any], Any, torch.dtype]] = {
    "discrete": (spaces.Discrete(6), 6, torch.int64),
    "box": (spaces.Box(-1, 1, (6,), np.float32), (6,), torch.float32),
    "scalar box": (spaces.Box(-1, 1, (), np.float32), (), torch.float32),
    "multi discrete": (spaces.MultiDiscrete([3, 4]), (2,), torch.int64),
    "multi binary": (spaces.MultiBinary(4), (4,), torch.int8),
}


def stored_as(given: Any, dtype: Any) -> Any:
    if isinstance(given, dict):
        return {name: stored_as(value, dtype[name]) for name, value in given.items()}
    return torch.as_tensor(given).to(dtype)


def same(one: Any, other: Any) -> bool:
    if isinstance(one, dict):
        return set(one) == set(other) and all(same(one[name], other[name]) for name in one)
    return one.dtype == other.dtype and torch.equal(one, other)


def first(values: Any) -> Any:
    return {name: value[0] for name, value in values.items()} if isinstance(values, dict) else values[0]


@pytest.mark.parametrize("kind", MEMORIES)
@pytest.mark.parametrize("name", OBSERVATIONS)
def test_observations_of_every_space_come_back_as_they_were(kind: type[ReplayMemory], name: str) -> None:
    space, shape, dtype = OBSERVATIONS[name]
    memory = kind.from_spaces(space, ONE, 10)
    assert (memory.spec.obs, memory.spec.action) == (shape, 3)
    space.seed(0)
    obs, after = space.sample(), space.sample()
    memory.add(Transition(obs, 1, 0.5, after, False))
    batch = memory.sample(3)
    assert same(first(batch.obs), stored_as(obs, dtype))
    assert same(first(batch.next_obs), stored_as(after, dtype))
    assert batch.action.tolist() == [1, 1, 1]


@pytest.mark.parametrize("name", ACTIONS)
def test_actions_of_every_space_come_back_as_they_were(name: str) -> None:
    space, declared, dtype = ACTIONS[name]
    memory = UniformMemory.from_spaces(spaces.Box(-1, 1, (2,)), space, 10)
    assert memory.spec.action == declared
    space.seed(0)
    action = space.sample()
    memory.add(Transition(np.zeros(2, np.float32), action, 0.0, np.zeros(2, np.float32), False))
    assert same(memory.sample(1).action[0], torch.as_tensor(action).to(dtype))


REFUSED: dict[str, tuple[spaces.Space[Any], spaces.Space[Any], str]] = {
    "tuple": (
        spaces.Tuple([ONE, ONE]),
        ONE,
        "wanted Box, Discrete, MultiBinary, MultiDiscrete or a Dict of them, got Tuple",
    ),
    "nested dict": (spaces.Dict(a=spaces.Dict(b=ONE)), ONE, "or a Dict of them, got Dict"),
    "dict of tuple": (spaces.Dict(a=spaces.Tuple([ONE])), ONE, "got Tuple"),
    "text": (spaces.Text(5), ONE, "space: wanted"),
    "sequence": (spaces.Sequence(ONE), ONE, "got Sequence"),
    "unsigned 64 bits": (spaces.Box(0, 9, (2,), np.uint64), ONE, "numeric dtype, got uint64"),
    "dict action": (ONE, spaces.Dict(a=ONE), "got Dict"),
    "tuple action": (ONE, spaces.Tuple([ONE]), "got Tuple"),
    "actions from one": (ONE, spaces.Discrete(3, start=1), "wanted actions numbered from 0, got Discrete"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_spaces_that_cannot_be_stored_are_refused(name: str) -> None:
    observation, action, message = REFUSED[name]
    with pytest.raises(ValueError, match=message):
        UniformMemory.from_spaces(observation, action, 10)


@pytest.mark.parametrize(("given", "stored"), [(np.uint16, torch.int32), (np.uint32, torch.int64)])
def test_unsigned_integers_are_stored_in_a_wider_dtype(given: Any, stored: torch.dtype) -> None:
    largest = int(np.iinfo(given).max)
    memory = UniformMemory.from_spaces(spaces.Box(0, largest, (2,), given), spaces.Discrete(2), 10)
    memory.add(Transition(np.array([0, largest], given), 1, 0.0, np.array([largest, 7], given), False))
    batch = memory.sample(1)
    assert batch.obs.dtype == stored
    assert (batch.obs.tolist(), batch.next_obs.tolist()) == ([[0, largest]], [[largest, 7]])


def test_options_beside_spaces_are_honoured() -> None:
    memory = PrioritizedMemory.from_spaces(
        spaces.Box(-1, 1, (2,), np.float64), ONE, 10, obs_dtype=torch.float64, lanes=2, envs=3, gamma=0.5
    )
    assert memory.spec.obs_dtype == torch.float64
    assert (memory.lanes, memory.spec.envs, memory.spec.gamma) == (2, 3, 0.5)


def test_a_stack_may_be_given_beside_spaces() -> None:
    memory = UniformMemory.from_spaces(spaces.Box(0, 255, (4, 6, 6), np.uint8), ONE, 10, stack=4)
    stack = np.arange(144, dtype=np.uint8).reshape(4, 6, 6)
    memory.add(Transition(stack, 1, 0.0, stack[::-1], False))
    batch = memory.sample(1)
    assert np.array_equal(batch.obs[0], stack)
    assert np.array_equal(batch.next_obs[0], stack[::-1])
    whole = UniformMemory.from_spaces(spaces.Box(0, 255, (4, 6, 6), np.uint8), ONE, 10)
    assert memory.nbytes < whole.nbytes


@pytest.mark.parametrize("kind", [*MEMORIES, CrystalMemory])
def test_unknown_and_missing_arguments_are_named_with_the_memory(kind: type[ReplayMemory]) -> None:
    make: Any = kind
    with pytest.raises(TypeError, match=rf"^{kind.__name__}: wanted arguments among action, .*seed, stack, got acton$"):
        make(100, obs=(4,), acton=2)
    with pytest.raises(TypeError, match=rf"^{kind.__name__}: wanted obs= and action=, got no action$"):
        make(100, obs=(4,))
