"""Environments that report what reaches them. Workers import this module: it imports no PyTorch."""

from __future__ import annotations

import gymnasium
import numpy as np


class Echo(gymnasium.Env):
    """Shows its last action and its age. An episode has `length` steps; the reward is 1 in each."""

    def __init__(self, size: int = 2, actions: int = 0, box: int = 0, start: int = 0, length: int = 5) -> None:
        self.size, self.length, self.scale = size, length, 1.0
        self.observation_space = gymnasium.spaces.Box(-1e6, 1e6, (size,), np.float32)
        low, high = np.full(box, -2, np.float32), np.full(box, 4, np.float32)
        self.action_space = (
            gymnasium.spaces.Box(low, high) if box else gymnasium.spaces.Discrete(actions or 2, start=start)
        )
        self.taken: list[object] = []

    def _seen(self, action: float) -> np.ndarray:
        seen = np.full(self.size, self.age, np.float32)
        seen[-1] = self.scale * action
        return seen

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.age = 0
        return self._seen(9.0), {}

    def step(self, action):
        assert self.action_space.contains(action)
        self.taken.append(action)
        self.age += 1
        info = {"is_success": bool(np.sum(action) > 0)}
        return self._seen(float(np.sum(action))), 1.0, False, self.age >= self.length, info


class Plus(gymnasium.ObservationWrapper):
    """Adds 100 to observations."""

    def observation(self, observation):
        return observation + np.float32(100)


class Twice(gymnasium.ObservationWrapper):
    """Doubles observations."""

    def observation(self, observation):
        return 2 * observation


class Restless(Echo):
    """Ignores its seed."""

    drawn = 0

    def reset(self, seed=None, options=None):
        Restless.drawn += 1
        obs, info = super().reset(seed=seed)
        return obs + np.float32(Restless.drawn), info


class Endless(Echo):
    """No episode ends."""

    def step(self, action):
        obs, reward, *_ = super().step(action)
        return obs, reward, False, False, {}


class Lost(Echo):
    """Returns NaN in its third step."""

    def step(self, action):
        obs, reward, *rest = super().step(action)
        return obs, float("nan") if self.age == 3 else reward, *rest


class Raising(Echo):
    """Raises in its second step."""

    def step(self, action):
        if self.age == 1:
            raise ArithmeticError("the sky fell down")
        return super().step(action)


class Short(Echo):
    """Returns observations that are shorter than it says."""

    def step(self, action):
        obs, *rest = super().step(action)
        return obs[:1], *rest


class Long(gymnasium.ObservationWrapper):
    """Adds three zeros to observations."""

    def __init__(self, env) -> None:
        super().__init__(env)
        self.observation_space = gymnasium.spaces.Box(-1e6, 1e6, (env.observation_space.shape[0] + 3,), np.float32)

    def observation(self, observation):
        return np.append(observation, np.zeros(3, np.float32))


def tuples(**options):
    """An environment without observations that are vectors."""
    env = Echo(**options)
    env.observation_space = gymnasium.spaces.Discrete(4)
    return env


def free(**options):
    """An environment whose actions have no bounds."""
    env = Echo(**options)
    env.action_space = gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float32)
    return env


class Flat:
    """A game of MinAtar whose frames are vectors."""

    def __init__(self, env) -> None:
        self.env, self.action_space, self.unwrapped = env, env.action_space, env
        self.observation_space = gymnasium.spaces.Box(0, 1, (int(np.prod(env.observation_shape)),), np.float32)

    def reset(self, seed):
        obs, info = self.env.reset(seed)
        return obs.ravel(), info

    def step(self, action):
        obs, *rest = self.env.step(action)
        return obs.ravel(), *rest


ECHO = "tests.suites.own_environments:Echo"
