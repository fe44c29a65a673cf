"""Environments that count, and models of Stable-Baselines3 that were trained on them."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from stable_baselines3 import DQN
from stable_baselines3.common.vec_env import DummyVecEnv

from crystalrl.integrations.sb3 import Consolidate, CrystalReplayBuffer, PrioritizedReplayBuffer

BUFFERS = (CrystalReplayBuffer, PrioritizedReplayBuffer)


class Counter(gym.Env[Any, Any]):
    """Observation: (episode, step). An episode ends after 5 steps: terminated if its number is even, else truncated."""

    observation_space = gym.spaces.Box(-1e6, 1e6, (2,), np.float32)
    action_space: gym.Space[Any] = gym.spaces.Discrete(3)

    def __init__(self, start: int = 0) -> None:
        self.episode, self.time = start - 1, 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        self.episode, self.time = self.episode + 1, 0
        return self.observe(), {}

    def observe(self) -> Any:
        return np.array([self.episode, self.time], np.float32)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.time += 1
        over, even = self.time == 5, self.episode % 2 == 0
        return self.observe(), float(self.episode + self.time / 10), over and even, over and not even, {}


class DictCounter(Counter):
    observation_space = gym.spaces.Dict(  # type: ignore[assignment]
        {"level": gym.spaces.Discrete(7), "place": gym.spaces.Box(-1e6, 1e6, (2,), np.float32)}
    )

    def observe(self) -> Any:
        return {"level": self.time, "place": np.array([self.episode, self.time], np.float32)}


def counted(buffer: Any, n_envs: int = 1, kind: type[Counter] = Counter, steps: int = 60, **options: Any) -> Any:
    """A DQN after `steps` steps of counters whose episodes are numbered from 0, 100, 200, …"""
    env = DummyVecEnv([lambda i=i: kind(100 * i) for i in range(n_envs)])  # type: ignore[misc]
    policy = "MultiInputPolicy" if kind is DictCounter else "MlpPolicy"
    options = {"learning_starts": 30, "buffer_size": 300, "seed": 1, "batch_size": 16, **options}
    model = DQN(policy, env, replay_buffer_class=buffer, **options)
    return model.learn(steps, callback=Consolidate() if buffer in BUFFERS else None)
