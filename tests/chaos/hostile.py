"""An environment that misbehaves once. Worker processes import it by name, so this module imports little."""

from __future__ import annotations

import json
import os
import signal
import time
from typing import Any

import gymnasium
import numpy as np

NAME = f"{__name__}:hostile"
"""Gymnasium takes it as an id. A worker process, which knows no registered ids, imports the function."""
VARIABLE = "CHAOS_HOSTILE"
"""Environment variable: how, in the episode with which seed and in which step it misbehaves."""
LENGTH = 10
RAISES = ("raise",)
"""The environment is replaced, its episode truncated, and its learner goes on."""
LIES = ("nan reward", "infinite reward", "nan observation", "huge observation", "short observation", "long observation")
"""The learner has failed: none of its numbers are stored."""
ENDS = ("exit", "kill", "hang")
"""In a worker process: the worker is replaced, and the episodes of all its environments are truncated."""


class Hostile(gymnasium.Env[Any, Any]):
    """Counts its steps. In the episode and step that the environment variable names, it misbehaves."""

    observation_space = gymnasium.spaces.Box(-1e6, 1e6, (2,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.age, self.own = 0, seed
        return np.array([0.0, (seed or 0) % 97], np.float32), {}

    def step(self, action: Any) -> Any:
        self.age += 1
        obs, reward = np.array([self.age, (self.own or 0) % 97], np.float32), float(action)
        order = json.loads(os.environ.get(VARIABLE, "{}"))
        if order and (self.own, self.age) == (order["seed"], order["step"]):
            obs, reward = misbehave(order["how"], obs, reward)
        return obs, reward, False, self.age >= LENGTH, {}


def misbehave(how: str, obs: Any, reward: float) -> tuple[Any, float]:
    if how == "raise":
        raise ArithmeticError("the sky fell down")
    if how == "exit":
        os._exit(17)
    if how == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "hang":
        time.sleep(3600)
    rewards = {"nan reward": np.nan, "infinite reward": -np.inf}
    seen = {
        "nan observation": obs * np.nan,
        "huge observation": np.array([1e300, 0.0]),
        "short observation": obs[:1],
        "long observation": np.append(obs, obs),
    }
    return seen.get(how, obs), rewards.get(how, reward)


def hostile() -> Hostile:
    return Hostile()


gymnasium.register(NAME, entry_point=Hostile)
