"""Goal-conditioned environments with dict observations. Workers import this module: it imports no PyTorch."""

from __future__ import annotations

import gymnasium
import numpy as np


class Point(gymnasium.Env):
    """Walks in a square towards a goal. The reward is −1 farther than `near` from it and 0 otherwise; at the goal the
    episode goes on."""

    def __init__(self, near: float = 0.3, length: int = 12, size: int = 2) -> None:
        self.near, self.length, self.size = near, length, size
        box = gymnasium.spaces.Box
        goal = box(-1, 1, (size,), np.float64)
        self.observation_space = gymnasium.spaces.Dict(
            {"observation": box(-1, 20, (size + 1,)), "achieved_goal": goal, "desired_goal": goal}
        )
        self.action_space = box(-1, 1, (size,), np.float32)

    def _seen(self) -> dict[str, np.ndarray]:
        seen = np.append(self.place, self.age)
        return {"observation": seen, "achieved_goal": self.place.copy(), "desired_goal": self.goal.copy()}

    def compute_reward(self, achieved: np.ndarray, desired: np.ndarray, info: object) -> np.ndarray:
        apart = np.linalg.norm(achieved - desired, axis=-1)
        return -(apart > self.near).astype(np.float64)

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.age, self.place = 0, np.zeros(self.size)
        self.goal = self.np_random.uniform(-1, 1, self.size)
        return self._seen(), {}

    def step(self, action):
        self.place, self.age = np.clip(self.place + 0.25 * action, -1, 1), self.age + 1
        reward = float(self.compute_reward(self.place, self.goal, {}))
        return self._seen(), reward, self._over(), self.age >= self.length, {"is_success": reward == 0}

    def _over(self) -> bool:
        return False


class Arrival(Point):
    """The goal ends the episode, which it says for one pair of goals at a time."""

    def compute_terminated(self, achieved: np.ndarray, desired: np.ndarray, info: object) -> bool:
        assert achieved.ndim == 1
        return bool(np.linalg.norm(achieved - desired) <= self.near)

    def _over(self) -> bool:
        return self.compute_terminated(self.place, self.goal, {})


class Single(Point):
    """Its `compute_reward` takes one pair of goals only."""

    def compute_reward(self, achieved: np.ndarray, desired: np.ndarray, info: object) -> np.ndarray:
        return -np.float64(np.linalg.norm(achieved - desired) > self.near)


class Flat(gymnasium.Env):
    """Its goals have different lengths."""

    def __init__(self) -> None:
        box = gymnasium.spaces.Box
        self.observation_space = gymnasium.spaces.Dict(
            {"observation": box(-1, 1, (2,)), "achieved_goal": box(-1, 1, (2,)), "desired_goal": box(-1, 1, (3,))}
        )
        self.action_space = gymnasium.spaces.Discrete(2)

    def compute_reward(self, achieved: np.ndarray, desired: np.ndarray, info: object) -> np.ndarray:
        return np.zeros(len(achieved))


class Frames(Flat):
    """Observes frames."""

    def __init__(self) -> None:
        super().__init__()
        parts = {**self.observation_space.spaces, "observation": gymnasium.spaces.Box(-1, 1, (10, 10, 1))}
        self.observation_space = gymnasium.spaces.Dict(parts)
