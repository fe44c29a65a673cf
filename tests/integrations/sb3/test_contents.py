"""SB3's names for what is stored: right values, shapes and dtypes; observations under VecNormalize; `extend`."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

from crystalrl.dynamics import EMPTY
from crystalrl.integrations.sb3 import Consolidate, CrystalReplayBuffer
from crystalrl.integrations.sb3.contents import as_declared
from tests.integrations.counters import BUFFERS, DictCounter, counted
from tests.integrations.twins import algorithm


@pytest.mark.parametrize("buffer", BUFFERS)
@pytest.mark.parametrize("n_envs", [1, 2])
def test_arrays_hold_every_stored_experience(buffer: Any, n_envs: int) -> None:
    stored = counted(buffer, n_envs, steps=60).replay_buffer
    size = stored.size()  # SB3 steps all environments train_freq times
    episode, time = stored.observations[:, 0].T
    steps = [(100 * env + step // 5, step % 5) for env in range(n_envs) for step in range(size // n_envs)]
    assert sorted(zip(episode, time, strict=True)) == sorted(steps)
    np.testing.assert_allclose(stored.next_observations[:, 0], np.stack([episode, time + 1], 1))
    np.testing.assert_allclose(stored.rewards[:, 0], episode + (time + 1) / 10, rtol=1e-6)
    np.testing.assert_array_equal(stored.dones[:, 0], time == 4)
    np.testing.assert_array_equal(stored.timeouts[:, 0], (time == 4) & (episode % 2 == 1))
    assert stored.actions.shape == (size, 1, 1)
    assert stored.rewards.dtype == stored.dones.dtype == stored.timeouts.dtype == np.float32


def test_arrays_are_copies_and_leave_out_empty_slots() -> None:
    stored = counted(CrystalReplayBuffer, steps=60).replay_buffer
    stored.rewards[:] = 1e6
    assert float(stored.rewards.max()) < 1e6
    ledger = stored.memory.ledger
    phase = ledger.phase
    phase[0, 10] = EMPTY
    ledger.relabel(phase, torch.ones(1, 1, dtype=torch.bool))
    assert stored.observations[9:12, 0].tolist() == [[1, 4], [2, 1], [2, 2]]


def test_dict_observations_are_a_dict_of_arrays() -> None:
    stored = counted(CrystalReplayBuffer, 1, DictCounter).replay_buffer
    level, place = stored.observations["level"], stored.observations["place"]
    assert (level.shape, level.dtype, place.shape) == ((60, 1, 1), np.int64, (60, 1, 2))
    np.testing.assert_array_equal(level[:, 0, 0], place[:, 0, 1])


@pytest.mark.parametrize("buffer", BUFFERS)
def test_position_and_full_count_experiences(buffer: Any) -> None:
    stored = counted(buffer, steps=60, buffer_size=100).replay_buffer
    assert (stored.pos, stored.full, stored.size()) == (60, False, 60)
    if buffer is not CrystalReplayBuffer:
        filled = counted(buffer, steps=120, buffer_size=100).replay_buffer
        assert (filled.pos, filled.full, filled.size()) == (0, True, 100)


@pytest.mark.parametrize("buffer", BUFFERS)
def test_extend_adds_what_was_read(buffer: Any) -> None:
    given, taking = (counted(buffer, steps=steps).replay_buffer for steps in (60, 35))
    infos = [[{"TimeLimit.truncated": bool(timeout)}] for timeout in given.timeouts[:, 0]]
    taking.reset()
    taking.extend(given.observations, given.next_observations, given.actions, given.rewards, given.dones, infos)
    for name in ("observations", "next_observations", "actions", "rewards", "dones", "timeouts"):
        np.testing.assert_array_equal(getattr(taking, name), getattr(given, name))


def test_extend_takes_dict_observations_of_several_environments() -> None:
    stored = counted(CrystalReplayBuffer, 2, DictCounter, steps=40).replay_buffer
    obs = {"level": np.zeros((3, 2, 1), int), "place": np.ones((3, 2, 2), np.float32)}
    stored.extend(obs, obs, np.zeros((3, 2), int), np.full((3, 2), 77.0), np.zeros((3, 2)), [[{}, {}]] * 3)
    assert int((stored.rewards == 77).sum()) == 6


class Pictures(gym.Env[Any, Any]):
    """Random images."""

    observation_space = gym.spaces.Box(0, 255, (1, 8, 8), np.uint8)
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        return self.picture(), {}

    def picture(self) -> Any:
        return self.np_random.integers(0, 256, (1, 8, 8), np.uint8)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        return self.picture(), 1.0, bool(self.np_random.random() < 0.1), False, {}


@pytest.mark.parametrize("buffer", BUFFERS)
def test_normalised_images_are_stored_as_they_came_and_drawn_normalised(buffer: Any) -> None:
    env = VecNormalize(DummyVecEnv([Pictures]))
    options = {"learning_starts": 20, "buffer_size": 100, "batch_size": 8}
    model = algorithm("DQN")("MlpPolicy", env, replay_buffer_class=buffer, policy_kwargs={"net_arch": [8]}, **options)
    model.learn(40, callback=Consolidate())
    raw = model.replay_buffer.observations
    assert raw.dtype == np.float32
    assert raw.min() < 10
    assert raw.max() > 245
    assert np.array_equal(raw, raw.round())
    samples = model.replay_buffer.sample(64, env=env)
    assert samples.observations.dtype == torch.float32
    assert float(samples.observations.abs().max()) < 4
    rows = {row.tobytes() for row in env.normalize_obs(raw[:, 0])}
    assert all(row.tobytes() in rows for row in samples.observations.numpy())


def test_integers_become_floats_only_where_the_space_has_floats() -> None:
    given = np.arange(6, dtype=np.uint8).reshape(2, 3)
    whole, real = gym.spaces.Box(0, 9, (3,), np.uint8), gym.spaces.Box(0, 9, (3,), np.float32)
    assert as_declared(given, whole, 2, (3,)).dtype == np.uint8
    assert as_declared(given, real, 2, (3,)).dtype == np.float32
    assert as_declared(given.astype(float), whole, 2, (3,)).dtype == float
