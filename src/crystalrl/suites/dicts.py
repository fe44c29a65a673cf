"""Goal-conditioned environments: their dict observations as vectors.

Worker processes import this module, so it must not load PyTorch.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

PARTS = ("observation", "achieved_goal", "desired_goal")
"""Keys of the observations of a goal-conditioned environment, in the order in which a vector holds them."""


class GoalVectors:
    """An environment whose vector observations hold observation, achieved goal and desired goal, one after another."""

    def __init__(self, env: Any) -> None:
        self.env, self.action_space = env, env.action_space
        spaces = [env.observation_space[part] for part in PARTS]
        for part, space in zip(PARTS, spaces, strict=True):
            if space.shape is None or len(space.shape) != 1:
                raise ValueError(f"observations: wanted a vector under {part}, got {space}")
        if spaces[1].shape != spaces[2].shape:
            raise ValueError(f"observations: wanted two goals of one shape, got {spaces[1].shape}, {spaces[2].shape}")
        import gymnasium

        low, high = (np.concatenate([getattr(space, end) for space in spaces]) for end in ("low", "high"))
        self.observation_space = gymnasium.spaces.Box(low.astype(np.float32), high.astype(np.float32))
        self.goal = (spaces[0].shape[0], spaces[1].shape[0])
        """Where the achieved goal begins, and the length of a goal."""

    @property
    def unwrapped(self) -> Any:
        return self.env.unwrapped

    def reset(self, seed: int) -> tuple[NDArray[Any], dict[str, Any]]:
        obs, info = self.env.reset(seed=seed)
        return _vector(obs), info

    def step(self, action: Any) -> tuple[NDArray[Any], float, bool, bool, dict[str, Any]]:
        obs, *others = self.env.step(action)
        return _vector(obs), *others

    def close(self) -> None:
        self.env.close()


def _vector(obs: Mapping[str, Any]) -> NDArray[Any]:
    return np.concatenate([np.asarray(obs[part], np.float32) for part in PARTS])


def shows_goals(env: Any) -> bool:
    """Whether observations are dicts with the keys of a goal-conditioned environment, and rewards can be recomputed."""
    spaces = getattr(getattr(env, "observation_space", None), "spaces", None)
    return isinstance(spaces, Mapping) and set(spaces) == set(PARTS) and hasattr(env.unwrapped, "compute_reward")
