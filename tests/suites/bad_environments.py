"""Real environments that fail on purpose; workers import them by name."""

import os
import time
from pathlib import Path

import gymnasium
import numpy as np


class Bad(gymnasium.Env):
    """Counts its steps: the observation is (step, episode seed mod 97). On one step it fails, once.

    `where` names a file: only the environment that creates it fails, so that a restarted environment does not.
    """

    observation_space = gymnasium.spaces.Box(-1e6, 1e6, (2,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, how: str, at: int, where: str = "", length: int = 10) -> None:
        self.how, self.at, self.where, self.length = how, at, where, length

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.age, self.sign = 0, float(seed % 97)
        return np.array([0.0, self.sign], np.float32), {}

    def step(self, action):
        self.age += 1
        if self.age == self.at and self._first():
            if self.how == "raise":
                raise ArithmeticError("the sky fell down")
            if self.how == "exit":
                os._exit(17)
            time.sleep(3600)
        done = self.age >= self.length
        return np.array([self.age, self.sign], np.float32), 1.0, False, done, {"success": action == 1}

    def _first(self) -> bool:
        if not self.where:
            return True
        try:
            Path(self.where).open("x").close()
        except FileExistsError:
            return False
        return True


class CrashingCartPole(gymnasium.Wrapper):
    """A CartPole whose length was changed kills its process at its 30th step, once."""

    steps = 0

    def step(self, action):
        self.steps += self.unwrapped.length != 0.5
        if self.steps == 30:
            try:
                Path(os.environ["BAD_FILE"]).open("x").close()
                os._exit(9)
            except FileExistsError:
                pass
        return self.env.step(action)


def crashing_cartpole() -> gymnasium.Env:
    return CrashingCartPole(gymnasium.make("CartPole-v1"))
