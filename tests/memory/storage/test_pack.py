"""Bad experiences are refused at the boundary, and nothing changes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from crystalrl import Transition, UniformMemory
from crystalrl.memory import ReplayMemory
from tests.experience import MEMORIES, SMALL, assert_same_state, random_step, simple, stacked
from tests.memory.refusals import begun, refused

NAN, INF = float("nan"), float("inf")
MASKED = np.ma.array(np.zeros(2, np.float32), mask=[False, True])


def changed(**fields: Any) -> Transition:
    """A good transition except for the given fields."""
    good = simple(5)
    return Transition(**{name: fields.get(name, getattr(good, name)) for name in Transition.__slots__})


VALUES: dict[str, tuple[dict[str, Any], str]] = {
    "NaN in obs": ({"obs": np.array([0, NAN], np.float32)}, r"^obs: wanted finite numbers of float32, got NaN"),
    "inf in obs": ({"obs": np.array([INF, 0], np.float32)}, "^obs: wanted finite"),
    "-inf in next_obs": ({"next_obs": np.array([-INF, 0], np.float32)}, "^next_obs: wanted finite"),
    "NaN in both": ({"obs": [NAN, 0.0], "next_obs": [NAN, 0.0]}, "^obs, next_obs: wanted finite"),
    "masked obs": ({"obs": MASKED}, "^obs: wanted values, got a masked array with 1 masked"),
    "masked reward": ({"reward": np.ma.masked}, "^reward: wanted values, got a masked"),
    "masked flag": ({"terminated": np.ma.masked_all((), bool)}, "^terminated: wanted values, got a masked"),
    "rounded reward": ({"reward": 2**24 + 1}, "^reward: wanted .* exactly, got the integer 16777217"),
    "rounded uint64": ({"reward": np.uint64(2**64 - 1)}, "^reward: wanted .* got the integer 18446744073709551615"),
    "rounded tensor": (
        {"reward": torch.tensor(-(2**62) - 1)},
        "^reward: wanted .* got the integer -4611686018427387905",
    ),
    "NaN reward": ({"reward": NAN}, "^reward: wanted finite"),
    "inf reward": ({"reward": np.float32(INF)}, "^reward: wanted finite"),
    "float64 too large for float32": ({"obs": np.array([1e39, 0.0])}, "^obs: wanted finite numbers of float32"),
    "reward too large for float32": ({"reward": -1e300}, "^reward: wanted finite numbers of float32"),
    "short obs": ({"obs": np.zeros(3, np.float32)}, r"^obs: wanted shape \(2,\) or \(1, 2\), got \(3,\)"),
    "scalar obs": ({"obs": 1.0}, r"^obs: wanted shape \(2,\) or \(1, 2\), got \(\)"),
    "two environments": ({"next_obs": np.zeros((2, 2), np.float32)}, r"^next_obs: wanted shape .*got \(2, 2\)"),
    "reward of two": ({"reward": [1.0, 2.0]}, r"^reward: wanted shape \(\) or \(1,\), got \(2,\)"),
    "action of two": ({"action": [1, 2]}, r"^action: wanted shape \(\) or \(1,\), got \(2,\)"),
    "action too high": ({"action": 4}, r"^action: wanted 0 … 3, got 4"),
    "action below zero": ({"action": -1}, r"^action: wanted 0 … 3, got -1"),
    "terminated of two": ({"terminated": [True, False]}, r"^terminated: wanted shape .*got \(2,\)"),
    "truncated is a number": ({"truncated": 3}, "^truncated: wanted booleans, got int64"),
    "terminated is NaN": ({"terminated": NAN}, "^terminated: wanted booleans"),
    "terminated is None": ({"terminated": None}, "^terminated: wanted booleans"),
    "unexpected context": ({"context": 1}, r"^context: wanted none .*context=False.*got 1"),
    "dict obs": ({"obs": {"a": np.zeros(2)}}, "^obs: wanted"),
    "obs is None": ({"obs": None}, r"^obs: wanted shape .*got \(\)"),
}


KINDS: dict[str, tuple[dict[str, Any], str]] = {
    "integer obs": ({"obs": np.zeros(2, np.int64)}, "^obs: wanted float32, got int64"),
    "boolean obs": ({"obs": np.zeros(2, bool)}, "^obs: wanted float32, got bool"),
    "complex obs": ({"obs": np.zeros(2, np.complex64)}, "^obs: wanted float32, got complex64"),
    "text obs": ({"obs": np.array(["a", "b"])}, "^obs: wanted float32, got <U1"),
    "float action": ({"action": 1.0}, "^action: wanted int64, got float64"),
    "text reward": ({"reward": "1"}, "^reward: wanted float32, got <U1"),
    "complex reward": ({"reward": 1j}, "^reward: wanted float32, got complex128"),
}


DICT: dict[str, Any] = {"obs": {"a": (2,), "b": ()}, "action": 4}


GOOD = {"a": np.zeros(2, np.float32), "b": 0.0}


PARTS: dict[str, tuple[Any, str]] = {
    "a part is missing": ({"a": GOOD["a"]}, r"^obs: wanted a dict with keys \['a', 'b'\], got \['a'\]"),
    "a part too many": ({**GOOD, "c": 1.0}, r"^obs: wanted a dict .*got \['a', 'b', 'c'\]"),
    "not a dict": (np.zeros(2, np.float32), "^obs: wanted a dict .*got ndarray"),
    "a part of another shape": ({**GOOD, "a": np.zeros(3, np.float32)}, r"^obs\.a: wanted shape .*got \(3,\)"),
    "NaN in a part": ({**GOOD, "b": NAN}, r"^obs\.b: wanted finite"),
}


@pytest.mark.parametrize("kind", MEMORIES)
@pytest.mark.parametrize("name", VALUES)
def test_wrong_values_and_shapes_are_refused(kind: type[ReplayMemory], name: str) -> None:
    fields, message = VALUES[name]
    memory = begun(kind)
    with refused(memory, message):
        memory.add(changed(**fields))


@pytest.mark.parametrize("name", KINDS)
def test_wrong_kinds_of_numbers_are_refused(name: str) -> None:
    fields, message = KINDS[name]
    memory = begun()
    with refused(memory, message, TypeError):
        memory.add(changed(**fields))


@pytest.mark.parametrize("n_step", [1, 3])
@pytest.mark.parametrize("kind", MEMORIES)
def test_a_refused_step_leaves_what_follows_untouched(kind: type[ReplayMemory], n_step: int) -> None:
    disturbed, calm = (kind(10, **SMALL, n_step=n_step) for _ in range(2))
    for number in range(25):
        with pytest.raises(ValueError, match="finite"):
            disturbed.add(changed(obs=[NAN, 0.0], terminated=True))
        assert torch.equal(disturbed.add(simple(number)), calm.add(simple(number)))
    assert_same_state(disturbed.state_dict(), calm.state_dict())


@pytest.mark.parametrize(("dtype", "value"), [(torch.float16, 70_000.0), (torch.float32, 4e38)])
def test_numbers_too_large_for_the_stored_float_are_refused(dtype: torch.dtype, value: float) -> None:
    memory = UniformMemory(10, obs=(2,), action=4, obs_dtype=dtype)
    with refused(memory, "^obs: wanted finite"):
        memory.add(changed(obs=np.array([value, 0.0])))


@pytest.mark.parametrize("value", [NAN, INF, 1e39])
def test_box_actions_must_be_finite(value: float) -> None:
    memory = UniformMemory(10, obs=(2,), action=(3,))
    with refused(memory, "^action: wanted finite"):
        memory.add(changed(action=np.array([0.0, value, 0.0])))


def test_integer_box_action_for_a_float_one_is_refused() -> None:
    memory = UniformMemory(10, obs=(2,), action=(3,))
    with refused(memory, "^action: wanted float32, got int64", TypeError):
        memory.add(changed(action=np.array([0, 1, 0])))


@pytest.mark.parametrize("value", [256, -1, 2**40])
def test_pixels_that_do_not_fit_into_a_byte_are_refused(value: int) -> None:
    memory = UniformMemory(10, obs=(2,), action=4, obs_dtype=torch.uint8)
    good = np.zeros(2, np.uint8)
    with refused(memory, rf"^obs: wanted uint8 values in \(0, 255\), got .*{value}"):
        memory.add(changed(obs=np.array([0, value]), next_obs=good))
    with refused(memory, "^next_obs: wanted uint8, got float32", TypeError):
        memory.add(changed(obs=good, next_obs=np.zeros(2, np.float32)))
    memory.add(changed(obs=np.array([0, 255]), next_obs=good))
    assert memory.sample(1).obs.tolist() == [[0, 255]]


@pytest.mark.parametrize("value", [2, -1])
def test_numbers_are_not_booleans(value: int) -> None:
    memory = UniformMemory(10, obs=(2,), action=4, obs_dtype=torch.bool)
    with refused(memory, r"^obs: wanted bool values in \(0, 1\)"):
        memory.add(changed(obs=np.array([0, value]), next_obs=np.array([0, 1])))


@pytest.mark.parametrize("name", PARTS)
def test_wrong_parts_of_a_dict_observation_are_refused(name: str) -> None:
    obs, message = PARTS[name]
    memory = UniformMemory(10, **DICT)
    memory.add(changed(obs=GOOD, next_obs=GOOD))
    with refused(memory, message):
        memory.add(changed(obs=obs, next_obs=GOOD))


def test_context_missing_wrong_or_too_large_is_refused() -> None:
    memory = begun(context=True)
    with refused(memory, "^context: wanted an integer id, got None"):
        memory.add(changed())
    with refused(memory, "^context: wanted int32, got float64", TypeError):
        memory.add(changed(context=1.5))
    with refused(memory, "^context: wanted int32 values in"):
        memory.add(changed(context=2**31))
    with refused(memory, "^context: wanted shape"):
        memory.add(changed(context=[1, 2]))


@pytest.mark.parametrize("kind", MEMORIES)
def test_wrong_numbers_of_lanes_or_environments_are_refused(kind: type[ReplayMemory]) -> None:
    rng = np.random.default_rng(0)

    def steps(lanes: int, envs: int, outer: int | None) -> Transition:
        return stacked([[random_step(rng) for _ in range(envs)] for _ in range(lanes)], outer)

    memory = kind(20, obs=(3,), action=5, lanes=3, envs=2)
    memory.add(steps(3, 2, 3))
    for lanes, envs in ((2, 2), (3, 1), (1, 2), (2, 3)):
        with refused(memory, rf"^obs: wanted shape \(3, 2, 3\), got \({lanes}, {envs}, 3\)"):
            memory.add(steps(lanes, envs, lanes))
    with refused(memory, r"^obs: wanted shape \(3, 2, 3\), got \(2, 3\)"):
        memory.add(steps(1, 2, None))
    flat = kind(20, obs=(3,), action=5, envs=2)
    flat.add(steps(1, 2, None))
    with refused(flat, r"^obs: wanted shape \(2, 3\), got \(3, 3\)"):
        flat.add(steps(1, 3, None))
    with refused(flat, r"^obs: wanted shape \(2, 3\), got \(1, 2, 3\)"):
        flat.add(steps(1, 2, 1))


@pytest.mark.parametrize("n_step", [1, 3])
def test_a_mask_of_wrong_shape_or_kind_is_refused(n_step: int) -> None:
    memory = UniformMemory(20, obs=(3,), action=5, envs=2, n_step=n_step)
    rng = np.random.default_rng(0)
    step = stacked([[random_step(rng) for _ in range(2)]], None)
    memory.add(step)
    with refused(memory, r"^valid: wanted shape \(2,\), got \(3,\)"):
        memory.add(step, valid=[True, True, False])
    with refused(memory, r"^valid: wanted shape \(2,\), got \(\)"):
        memory.add(step, valid=True)
    with refused(memory, "^valid: wanted booleans, got torch.int64", TypeError):
        memory.add(step, valid=[1, 0])
    with refused(memory, r"^ended: wanted shape \(2,\), got \(1,\)"):
        memory.end_episode([True])


@pytest.mark.parametrize("reward", [2**24, -(2**24), 2**40, np.int64(-(2**63)), np.uint64(2**63), True, 7])
def test_integer_rewards_that_float32_holds_exactly_are_stored(reward: Any) -> None:
    memory = UniformMemory(4, **SMALL)
    memory.add(changed(reward=reward))
    assert int(memory.sample(1).reward.item()) == int(reward)


def test_a_masked_array_without_masked_entries_is_an_array() -> None:
    memory = UniformMemory(4, **SMALL)
    memory.add(changed(obs=np.ma.array([1.0, 2.0], dtype=np.float32)))
    assert memory.sample(1).obs.tolist() == [[1.0, 2.0]]


def test_masked_errors_and_masks_are_refused() -> None:
    memory, masked = begun(UniformMemory), np.ma.masked_all((1,), bool)
    with refused(memory, "^td_error: wanted values, got a masked"):
        memory.update(torch.tensor([0, 1]), MASKED)
    with refused(memory, "^valid: wanted values, got a masked"):
        memory.add(simple(3), valid=masked)
    with refused(memory, "^ended: wanted values, got a masked"):
        memory.end_episode(masked)
