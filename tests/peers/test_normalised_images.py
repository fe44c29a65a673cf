"""Stable-Baselines3 normalises when a batch is drawn; the original observations, such as images, are stored."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch

pytest.importorskip("stable_baselines3")

from stable_baselines3 import DQN, SAC
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

from crystalrl.integrations.sb3 import Consolidate
from tests.integrations.counters import BUFFERS

IMAGE = gym.spaces.Box(0, 255, (1, 36, 36), np.uint8)
PARTS = gym.spaces.Dict({"image": IMAGE, "place": gym.spaces.Box(-9, 9, (2,), np.float32)})


class Scenes(gym.Env[Any, Any]):
    """Random observations of a space, and a reward far from zero."""

    def __init__(self, space: gym.Space[Any], action: gym.Space[Any]) -> None:
        self.observation_space, self.action_space = space, action

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        return self.observation_space.sample(), 100.0, False, bool(np.random.default_rng().random() < 0.1), {}


def learned(buffer: Any, name: str, space: gym.Space[Any], **options: Any) -> tuple[Any, VecNormalize]:
    action = gym.spaces.Discrete(2) if name == "DQN" else gym.spaces.Box(-1, 1, (1,), np.float32)
    env = VecNormalize(DummyVecEnv([lambda: Scenes(space, action)] * 2), **options)
    policy = "MultiInputPolicy" if isinstance(space, gym.spaces.Dict) else "MlpPolicy"
    given: dict[str, Any] = {"buffer_size": 100, "learning_starts": 20, "batch_size": 8, "replay_buffer_class": buffer}
    model = {"DQN": DQN, "SAC": SAC}[name](policy, env, policy_kwargs={"net_arch": [8]}, **given)
    model.learn(40, callback=Consolidate())
    return model, env


@pytest.mark.parametrize("buffer", BUFFERS)
@pytest.mark.parametrize("name", ["DQN", "SAC"])
def test_images_are_drawn_normalised_by_the_present_statistics(buffer: Any, name: str) -> None:
    model, env = learned(buffer, name, IMAGE)
    stored = model.replay_buffer.observations[:, 0]
    assert stored.min() < 20 < 235 < stored.max()
    np.testing.assert_array_equal(stored, stored.round())
    known = {row.tobytes() for row in env.normalize_obs(stored)}
    samples = model.replay_buffer.sample(64, env=env)
    assert all(row.tobytes() in known for row in samples.observations.numpy())
    assert float(samples.observations.abs().max()) < 5
    env.obs_rms.mean = env.obs_rms.mean + 50
    again = model.replay_buffer.sample(64, env=env)
    assert float(again.observations.mean()) < float(samples.observations.mean()) - 0.3
    assert float(samples.rewards.max()) < 100


@pytest.mark.parametrize("buffer", BUFFERS)
def test_of_a_dict_only_the_chosen_parts_are_normalised(buffer: Any) -> None:
    model, env = learned(buffer, "DQN", PARTS, norm_obs_keys=["place"])
    samples = model.replay_buffer.sample(32, env=env)
    assert samples.observations["image"].dtype == torch.uint8
    assert int(samples.observations["image"].max()) > 200
    assert float(samples.observations["place"].abs().max()) < 5
