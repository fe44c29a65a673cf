"""The buffer for Tianshou: samples are what was added, n-step returns, dict observations, misuse."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from tianshou.data import Batch, VectorReplayBuffer
from tianshou.utils.torch_utils import policy_within_training_step

from crystalrl.integrations.tianshou import CrystalReplayBuffer
from tests.integrations.tianshou_models import (
    ANCHORS,
    ENVS,
    GAMMA,
    A,
    D,
    make,
    step,
    train,
    trained,
)


def test_every_sample_is_what_was_added_and_statistics_are_those_of_the_episodes() -> None:
    _, buffer = make("DQN", slots=60)
    rng, known, sums = np.random.default_rng(0), {}, np.zeros(ENVS)
    lengths = np.zeros(ENVS, int)
    for _ in range(40):
        given = step("DQN", rng)
        slots, returns, lens, first = buffer.add(given)
        done = given.terminated | given.truncated
        sums, lengths = sums + given.rew, lengths + 1
        np.testing.assert_allclose(returns, np.where(done, sums, 0))
        np.testing.assert_array_equal(lens, np.where(done, lengths, 0))
        for k in np.flatnonzero(done):
            assert len(buffer.get_buffer_indices(int(first[k]), int(slots[k]) + 1)) == lengths[k]
        sums, lengths = np.where(done, 0, sums), np.where(done, 0, lengths)
        known |= {
            tuple(given.obs[k]): (given.act[k], given.rew[k], given.terminated[k], tuple(given.obs_next[k]))
            for k in range(ENVS)
        }
    samples, slots = buffer.sample(50)
    for k in range(50):
        wanted = known[tuple(samples.obs[k])]
        assert (samples.act[k], samples.rew[k], samples.terminated[k], tuple(samples.obs_next[k])) == wanted
    assert len(buffer) == len(buffer.sample_indices(0)) == len(buffer[:].rew)
    assert samples.weight.shape == (50,)


def n_step_returns(made: Any, stream: list[Batch], stored: set[tuple[float, ...]]) -> dict[tuple[float, ...], float]:
    """Returns over up to three steps, by first observation; they stop where the next step is not `stored`."""
    found = {}
    for k, first in enumerate(stream):
        for env in range(ENVS):
            total = 0.0
            for n, later in enumerate(stream[k : k + 3]):
                if n and tuple(later.obs[env]) not in stored:
                    break
                total, last = total + GAMMA**n * float(later.rew[env]), (n, later)
                if later.terminated[env] or later.truncated[env]:
                    break
            n, later = last
            after = torch.as_tensor(later.obs_next[env][None])
            with torch.no_grad():
                best = int(made.policy.model(after)[0].argmax())
                value = float(made.model_old(after)[0][0, best]) * (not later.terminated[env])
            found[tuple(first.obs[env])] = total + GAMMA ** (n + 1) * value
    return found


@pytest.mark.parametrize("slots", [4000, 120], ids=["all stored", "some overwritten"])
def test_n_step_returns_follow_each_episode_as_far_as_it_is_stored(slots: int) -> None:
    made, buffer = make("DQN", slots=slots, n_step_return_horizon=3)
    rng = np.random.default_rng(0)
    stream = [step("DQN", rng) for _ in range(100)]
    train(made, buffer, stream)
    drawn = buffer.sample_indices(0)
    samples = made._preprocess_batch(buffer[drawn], buffer, drawn)
    stored = {tuple(row) for row in buffer._meta.obs[: buffer.memory.ledger.used].tolist()}
    wanted = n_step_returns(made, stream, stored)
    for obs, found in zip(samples.obs.tolist(), samples.returns.flatten().tolist(), strict=True):
        assert found == pytest.approx(wanted[tuple(obs)], rel=1e-4, abs=1e-5)
    assert (len(stored) == 4 * len(stream)) == (slots == 4000)
    steps = np.arange(slots)
    linked = buffer.next(steps) != steps
    assert (buffer.prev(buffer.next(steps))[linked] == steps[linked]).all()
    if slots == 4000:  # then it is what Tianshou's own buffer gives
        own = VectorReplayBuffer(slots, ENVS)
        for given in stream:
            own.add(given, buffer_ids=np.arange(ENVS))
        every = own.sample_indices(0)
        theirs = made._preprocess_batch(own[every], own, every)
        known = dict(zip(map(tuple, theirs.obs.tolist()), theirs.returns.flatten().tolist(), strict=True))
        ours = [known[tuple(obs)] for obs in samples.obs.tolist()]
        np.testing.assert_allclose(samples.returns.flatten().numpy(), ours, rtol=1e-5)


PARTS = {"a": slice(0, 1), "b": slice(1, D)}


def as_dict(given: Batch, masked: bool) -> Batch:
    """The same step with its observations in parts, or with a mask that allows every action."""
    whole = given.to_dict()
    for name in ("obs", "obs_next"):
        parts: dict[str, Any] = {part: whole[name][:, where] for part, where in PARTS.items()}
        whole[name] = {"obs": whole[name], "mask": np.ones((ENVS, A), bool)} if masked else parts
    return Batch(whole)


@pytest.mark.parametrize(("name", "masked"), [("DQN", False), ("DQN", True), ("SAC", False)])
def test_dict_observations_train_exactly_like_the_same_numbers_in_one_array(name: str, masked: bool) -> None:
    rng = np.random.default_rng(0)
    stream = [step(name, rng) for _ in range(60)]
    params = replace(ANCHORS, w2=0.0, w3=0.0) if masked else ANCHORS  # states are compared with their masks
    one, two = make(name, params), make(name, params)
    train(*one, stream)
    train(*two, [as_dict(given, masked) for given in stream])
    for theirs, ours in zip(one[0].policy.parameters(), two[0].policy.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(two[1].memory.ledger.c, one[1].memory.ledger.c, rtol=1e-4, atol=1e-5)
    assert float(one[1].memory.ledger.c.max()) > 0.5
    whole, part = one[1].sample(16)[0], two[1].sample(16)[0]
    if masked:
        np.testing.assert_array_equal(part.obs.obs, whole.obs)
        np.testing.assert_array_equal(part.obs_next.mask, True)
    else:
        np.testing.assert_array_equal(np.concatenate([part.obs.a, part.obs.b], 1), whole.obs)


def test_unfinished_steps_are_stored_ones() -> None:
    _, buffer = make("DQN", slots=50)
    assert buffer.unfinished_index().tolist() == []
    rng = np.random.default_rng(0)
    given = step("DQN", rng)
    given.terminated, given.truncated = np.array([True, False, False, False]), np.array([False, True, False, False])
    slots = buffer.add(given)[0]
    assert buffer.unfinished_index().tolist() == slots[2:].tolist()
    given.terminated[:] = given.truncated[:] = False
    later = buffer.add(given)[0]
    assert buffer.unfinished_index().tolist() == later.tolist()


def test_negative_slots_and_sizes_mean_what_they_mean_in_tianshou() -> None:
    _, buffer = make("DQN", slots=8)
    own = VectorReplayBuffer(8, ENVS)
    given = step("DQN", np.random.default_rng(0))
    given.terminated[:] = given.truncated[:] = False
    for each in (buffer, own):
        each.add(given, np.arange(ENVS))
        each.add(given, np.arange(ENVS))
        assert each.next(-1) == each.next(7) == 7
        assert each.prev(-1) == each.prev(7)
        assert each.next([-1]).tolist() == [7]
        assert len(each.sample_indices(-1)) == len(each.sample(-1)[1]) == 0
        assert sorted(each.sample_indices(0)) == list(range(8))


def test_the_slots_of_an_episode_are_found_between_its_ends() -> None:
    _, buffer = make("DQN", slots=50)
    given = step("DQN", np.random.default_rng(0))
    given.terminated[:] = given.truncated[:] = False
    slots = np.array([buffer.add(given)[0] for _ in range(5)])
    for env in range(ENVS):
        mine = slots[:, env]
        np.testing.assert_array_equal(buffer.get_buffer_indices(int(mine[0]), int(mine[-1]) + 1), mine)
        np.testing.assert_array_equal(buffer.get_buffer_indices(int(mine[1]), int(mine[3]) + 1), mine[1:4])
    assert buffer.get_buffer_indices(3, 3).tolist() == []
    with pytest.raises(ValueError, match="wanted steps of one stored episode"):
        buffer.get_buffer_indices(int(slots[0, 0]), int(slots[4, 1]) + 1)


def test_a_single_environment_s_transition_needs_no_axis_of_environments() -> None:
    made, _ = make("DQN")
    one, many = (CrystalReplayBuffer(20, 1, ANCHORS) for _ in range(2))
    given = step("DQN", np.random.default_rng(0))
    for buffer in (one, many):
        buffer.attach(made)
    for ended in (False, True):
        given.terminated[:], given.truncated[:] = ended, False
        slots, returns, lengths, first = one.add(given[0])
        wanted = many.add(given[:1])
        assert (slots, returns, lengths, first) == wanted
        assert slots.shape == (1,)
    for name in ("obs", "act", "rew", "terminated", "done", "obs_next"):
        np.testing.assert_array_equal(one._meta[name], many._meta[name])


def test_misuse_is_refused_with_a_reason() -> None:
    buffer = CrystalReplayBuffer(100, ENVS)
    rng = np.random.default_rng(0)
    with pytest.raises(RuntimeError, match=r"call buffer.attach\(algorithm\)"):
        buffer.add(step("DQN", rng))
    _made, buffer = make("DQN")
    given = step("DQN", rng)
    given.rew[1] = np.nan
    with pytest.raises(ValueError, match="rew: wanted finite numbers"):
        buffer.add(given)
    given = step("DQN", rng)
    given.obs = Batch(a=Batch(b=given.obs))
    with pytest.raises(TypeError, match=r"obs.a: wanted an array of numbers, got Batch: nested dicts"):
        buffer.add(given)
    buffer.add(step("DQN", rng))
    _, slots = buffer.sample(4)
    with pytest.raises(RuntimeError, match="trained on other arrays than sample"):
        buffer.update_weight(slots, np.zeros(4))
    with pytest.raises(NotImplementedError, match="wanted `save`"):
        buffer.save_hdf5("nowhere")
    assert A == 2


def test_errors_never_reach_an_experience_written_since_the_draw() -> None:
    made, buffer = trained("DQN")
    memory, rng, late = buffer.memory, np.random.default_rng(0), 0
    for _ in range(10):
        with policy_within_training_step(made.policy):
            made.update(buffer=buffer, sample_size=32)  # |δ| of the armed batch, of its size
        slots = buffer.sample_indices(32)
        first = memory.ledger.birth[0, slots].clone()
        for _ in range(10):
            buffer.add(step("DQN", rng))
        buffer.sample_indices(16)  # another draw is outstanding
        same = memory.ledger.birth[0, slots] == first
        before = memory.ledger.error[0].clone()
        memory.steps.zero_()  # a consolidation is not due
        buffer.update_weight(slots, None)
        changed = (memory.ledger.error[0] != before).nonzero()[:, 0]
        assert set(changed.tolist()) <= set(slots[same.numpy()].tolist())
        late += int((~same).sum())
    assert late > 10


def test_the_return_of_an_episode_boosts_its_experiences() -> None:
    _, buffer = make("DQN", replace(ANCHORS, boost=True), slots=600)
    rng, wanted, largest = np.random.default_rng(0), np.zeros(600, np.float32), 0.0
    open_slots, totals = [[] for _ in range(ENVS)], np.zeros(ENVS)
    for _ in range(80):
        given = step("DQN", rng)
        slots = buffer.add(given)[0]
        gamma = GAMMA
        largest = max(largest, float(np.abs(given.rew).max()))
        for env, slot in enumerate(slots):
            totals[env] += gamma ** len(open_slots[env]) * given.rew[env]
            open_slots[env].append(int(slot))
            if given.terminated[env] or given.truncated[env]:
                wanted[open_slots[env]] = min(max(totals[env] * (1 - gamma) / largest, 0.0), 1.0)
                open_slots[env], totals[env] = [], 0.0
    assert int((wanted > 0.01).sum()) > 20
    np.testing.assert_allclose(buffer.memory.ledger.boost[0].numpy(), wanted, rtol=1e-5)
