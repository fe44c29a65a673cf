"""Payload: how a transition is taken in and handed back."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from crystalrl import PrioritizedMemory, ReservoirMemory, Transition, UniformMemory
from crystalrl.memory import ReplayMemory
from crystalrl.memory.storage.spec import FLOATS, StorageSpec
from tests.memory.storage.structures import DTYPES, actions, parts, spec_of, values


@settings(max_examples=150)
@given(
    kinds=parts,
    action=actions,
    action_dtype=st.sampled_from(DTYPES),
    context=st.booleans(),
    lanes=st.sampled_from([None, 1, 2]),
    envs=st.integers(1, 2),
    seed=st.integers(0, 99),
)
def test_what_goes_in_comes_out_whatever_its_shape_and_dtype(
    kinds: dict[str, Any],
    action: Any,
    action_dtype: torch.dtype,
    context: bool,
    lanes: int | None,
    envs: int,
    seed: int,
) -> None:
    spec = spec_of(kinds, action, action_dtype, context, lanes=lanes, envs=envs)
    memory = UniformMemory(**{name: getattr(spec, name) for name in StorageSpec.__dataclass_fields__})
    rng = np.random.default_rng(seed)
    lead = (envs,) if lanes is None else (lanes, envs)

    def observed() -> dict[str, np.ndarray]:
        return {name: values(rng, (*lead, *shape), dtype) for name, (shape, dtype) in kinds.items()}

    acted = rng.integers(0, action, lead) if isinstance(action, int) else values(rng, (*lead, *action), action_dtype)
    task = rng.integers(-(2**31), 2**31, lead, dtype=np.int32) if context else None
    step = Transition(observed(), acted, rng.normal(size=lead), observed(), np.zeros(lead, bool), context=task)
    slots = memory.add(step).reshape(memory.lanes, envs)
    batch = memory.sample(7)

    def same(got: torch.Tensor, wanted: np.ndarray) -> None:
        wanted = wanted.reshape(memory.lanes, envs, *wanted.shape[len(lead) :])
        got = got.reshape(memory.lanes, 7, *wanted.shape[2:]).numpy()
        index = batch.index.reshape(memory.lanes, 7).numpy()
        for lane in range(memory.lanes):
            order = slots[lane].tolist()
            for b in range(7):
                assert np.array_equal(got[lane, b], wanted[lane, order.index(index[lane, b])])

    for name, (_, dtype) in kinds.items():
        assert batch.obs[name].dtype == batch.next_obs[name].dtype == dtype
        same(batch.obs[name], step.obs[name])
        same(batch.next_obs[name], step.next_obs[name])
    same(batch.action, step.action)
    same(batch.reward, step.reward.astype(np.float32))
    same(batch.discount, np.full(lead, 0.99, np.float32))
    if task is None:
        assert batch.context is None
    else:
        same(batch.context, task)


def test_pixels_take_one_byte_each() -> None:
    memory = UniformMemory(10, obs=(4, 84, 84), action=6, obs_dtype=torch.uint8)
    assert memory.nbytes < 10 * (2 * 4 * 84 * 84 + 64)
    frame = np.random.default_rng(0).integers(0, 256, (4, 84, 84), dtype=np.uint8)
    memory.add(Transition(frame, 5, 1.0, frame[::-1], False))
    batch = memory.sample(2)
    assert batch.obs.dtype == torch.uint8
    assert np.array_equal(batch.obs[1].numpy(), frame)
    assert np.array_equal(batch.next_obs[0].numpy(), frame[::-1])


@pytest.mark.parametrize("given_dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("stored", FLOATS)
def test_floats_are_converted_to_the_stored_float(stored: torch.dtype, given_dtype: Any) -> None:
    memory = UniformMemory(4, obs=(2,), action=2, obs_dtype=stored)
    obs = np.array([0.1, -3.7]).astype(given_dtype)
    memory.add(Transition(obs, 0, 0.0, obs, False))
    assert torch.equal(memory.sample(1).obs[0], torch.from_numpy(obs).to(stored))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_tensors_of_every_float_kind_are_taken(dtype: torch.dtype) -> None:
    memory = UniformMemory(4, obs=(2,), action=2)
    obs = torch.tensor([1.5, -2.0], dtype=dtype, requires_grad=True)
    memory.add(Transition(obs, 0, torch.tensor(0.5, dtype=dtype), obs * 2, False))
    batch = memory.sample(1)
    assert batch.obs.tolist() == [[1.5, -2.0]]
    assert batch.next_obs.tolist() == [[3.0, -4.0]]
    assert batch.reward.tolist() == [0.5]


def test_integers_are_converted_to_a_smaller_integer_if_they_fit() -> None:
    memory = UniformMemory(4, obs=(2,), action=300, obs_dtype=torch.int16)
    obs = np.array([-32768, 32767])
    memory.add(Transition(obs, np.uint16(299), 0.0, obs, False))
    batch = memory.sample(1)
    assert batch.obs[0].tolist() == [-32768, 32767]
    assert batch.action.tolist() == [299]


def test_a_reward_may_be_a_whole_number() -> None:
    memory = UniformMemory(4, obs=(2,), action=2)
    obs = np.zeros(2, np.float32)
    for reward in (3, np.int64(-2), True, np.float64(0.5)):
        memory.add(Transition(obs, 0, reward, obs, False))
    stored = memory.arena.unpack(memory.arena.rows[0])["reward"]
    assert stored.tolist() == [3.0, -2.0, 1.0, 0.5]


def test_one_environment_may_have_a_leading_axis_or_none() -> None:
    bare, leading = (UniformMemory(4, obs=(2,), action=2) for _ in range(2))
    obs = np.array([1.0, 2.0], np.float32)
    assert bare.add(Transition(obs, 1, 0.5, obs, True)).shape == ()
    leading.add(Transition(obs[None], np.array([1]), np.array([0.5]), obs[None], np.array([True])))
    for name, tensor in bare.state_dict().items():
        assert torch.equal(tensor, leading.state_dict()[name]), name


def test_arrays_that_are_not_contiguous_are_stored_right() -> None:
    memory = UniformMemory(4, obs=(2, 3), action=2)
    wide = np.arange(12, dtype=np.float32).reshape(3, 4)
    obs = wide.T[::2]
    memory.add(Transition(obs, 0, 0.0, obs[:, ::-1], False))
    batch = memory.sample(1)
    assert batch.obs[0].tolist() == obs.tolist()
    assert batch.next_obs[0].tolist() == obs[:, ::-1].tolist()


def test_one_context_or_flag_may_stand_for_all_environments() -> None:
    memory = UniformMemory(4, obs=(2,), action=2, envs=2, context=True)
    obs = np.zeros((2, 2), np.float32)
    memory.add(Transition(obs, np.zeros(2, int), np.zeros(2), obs, True, False, context=7))
    batch = memory.sample(4)
    assert batch.context.tolist() == [7] * 4
    assert batch.discount.tolist() == [0.0] * 4
    assert batch.context.dtype == torch.int32


@pytest.mark.parametrize("kind", [UniformMemory, PrioritizedMemory, ReservoirMemory])
def test_a_memory_too_large_for_the_machine_is_refused_with_the_numbers_before_it_is_allocated(
    kind: type[ReplayMemory],
) -> None:
    begin = time.monotonic()
    with pytest.raises(
        MemoryError, match=r"2 × 1000000000 experiences needs 1\.13e\+05 GB on cpu, [\d.]+ GB available"
    ):
        kind(10**9, obs=(84, 84), action=4, obs_dtype=torch.float32, lanes=2)
    assert time.monotonic() - begin < 1


def test_float64_observations_keep_all_digits_if_asked_to() -> None:
    memory = UniformMemory(5, obs=(2,), action=2, obs_dtype=torch.float64)
    obs = np.array([np.pi, 1e300])
    memory.add(Transition(obs, 0, 0.0, obs, False))
    assert memory.sample(1).obs[0].tolist() == obs.tolist()
