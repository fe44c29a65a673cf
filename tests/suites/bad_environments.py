"""Real environments that fail on purpose.

Workers import this module by name, so it imports nothing of the library, which would load PyTorch in each of them.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import gymnasium
import numpy as np

if TYPE_CHECKING:
    from crystalrl.suites.gym import GymWorld


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
        if self.how != "never" and self.age == self.at and self._first():
            if self.how == "raise":
                raise ArithmeticError("the sky fell down")
            if self.how == "exit":
                os._exit(17)
            if self.how == "hang":
                time.sleep(3600)
            return BAD_STEPS[self.how](np.array([self.age, self.sign], np.float32))
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


BAD_STEPS = {
    "nan reward": lambda obs: (obs, float("nan"), False, False, {}),
    "huge reward": lambda obs: (obs, 1e300, False, False, {}),
    "inf observation": lambda obs: (obs * np.array([1, -np.inf], np.float32), 1.0, False, False, {}),
    "nan at the end": lambda obs: (obs + np.nan, 1.0, True, False, {}),
    "long observation": lambda obs: (np.append(obs, obs), 1.0, False, False, {}),
    "short observation": lambda obs: (obs[:1], 1.0, False, False, {}),
}
"""What an environment that does not fail, but lies, returns."""


class Hostile(Bad):
    """Fails as the variable HOSTILE says, in the fourth step of the episodes whose seeds are in HOSTILE_SEEDS."""

    def __init__(self) -> None:
        super().__init__(os.environ.get("HOSTILE", "never"), 4)

    def reset(self, seed=None, options=None):
        self.seed = seed
        return super().reset(seed, options)

    def _first(self) -> bool:
        return str(self.seed) in os.environ["HOSTILE_SEEDS"].split()


def hostile() -> gymnasium.Env:
    return gymnasium.make(HOSTILE)


HOSTILE = "Hostile-v0"
gymnasium.register(HOSTILE, entry_point=Hostile)


def first_seeds(world: GymWorld, lanes: Iterable[int]) -> str:
    """Seeds of the first episode of each lane's first environment, for HOSTILE_SEEDS."""
    from crystalrl.suites.worker import reset_seed

    return " ".join(str(reset_seed(world._request(lane * world.envs)["seed"], 0)) for lane in lanes)


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


class Faulty:
    """A wrapper of any environment that fails in its third step as the variable FAULTY says, once if it is a crash."""

    def __init__(self, env) -> None:
        self.env, self.age, self.unwrapped = env, 0, env.unwrapped
        self.action_space, self.observation_space = env.action_space, env.observation_space
        if hasattr(env, "stack_size"):
            self.stack_size = env.stack_size

    def reset(self, seed):
        self.age = 0
        return self.env.reset(seed=seed)

    def step(self, action):
        self.age += 1
        obs, reward, *rest = self.env.step(action)
        how = os.environ["FAULTY"] if self.age == 3 else ""
        if how == "nan":
            reward = float("nan")
        elif how:
            try:
                Path(os.environ["BAD_FILE"]).open("x").close()
            except FileExistsError:
                return obs, reward, *rest
            os._exit(9) if how == "crash" else time.sleep(3600)
        return obs, reward, *rest
