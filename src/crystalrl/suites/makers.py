"""Environments of packages whose names are not Gymnasium ids: MinAtar, Meta-World and Atari.

Worker processes import this module, so it must not load PyTorch; it imports a package when a task needs it. The same
seed gives the same episode, whatever was played before.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crystalrl.packages import require

Step = tuple[Any, float, bool, bool, dict[str, Any]]
FRAMES = 2500
"""Steps after which a MinAtar episode is truncated."""
GOALS = 42
"""Seed of the 50 goals that Meta-World draws for a task."""
SKIP, STICKY, STACK, SIDE = 4, 0.25, 4, 84
"""Atari: frames per action, probability that an action is repeated, frames in an observation, their size in pixels."""


class MinAtar:
    """A MinAtar game (Young and Tian 2019) with Gymnasium's interface, the full action set and sticky actions."""

    class action_space:
        n = 6

    def __init__(self, game: str) -> None:
        from minatar import Environment  # type: ignore[import-untyped, unused-ignore]

        self.game = Environment(game)
        self.observation_shape = tuple(self.game.state_shape())
        self.age = 0

    @property
    def unwrapped(self) -> MinAtar:
        return self

    def reset(self, seed: int) -> tuple[Any, dict[str, Any]]:
        self.game.seed(seed % 2**32)
        self.game.last_action, self.age = 0, 0
        self.game.reset()
        return self.game.state(), {}

    def step(self, action: int) -> Step:
        reward, ended = self.game.act(action)
        self.age += 1
        return self.game.state(), float(reward), bool(ended), self.age >= FRAMES and not ended, {}


class MetaWorld:
    """A Meta-World task (Yu et al. 2019) with Gymnasium's interface. A reset draws one of the task's 50 goals, which
    the observation shows. Episodes are truncated after `steps` steps and do not end with a success.
    """

    def __init__(self, task: str, steps: int = 500, reward: str = "v2") -> None:
        """`reward`: version of the package's reward function."""
        require(f"meta-world:{task}", "metaworld", extra="metaworld")
        os.environ.setdefault("MUJOCO_GL", "disable")  # nothing is drawn
        environment, self.goals = _goals(task)
        self.env = environment(reward_function_version=reward)
        self.action_space, self.observation_space = self.env.action_space, self.env.observation_space
        self.steps, self.age = steps, 0

    @property
    def unwrapped(self) -> Any:
        return self.env

    def reset(self, seed: int) -> tuple[NDArray[Any], dict[str, Any]]:
        self.age = 0
        self.env.seed(seed)
        self.env.set_task(self.goals[np.random.default_rng(seed).integers(len(self.goals))])
        obs, info = self.env.reset(seed=seed)
        return obs, info

    def step(self, action: NDArray[Any]) -> Step:
        obs, reward, terminated, _, info = self.env.step(action)
        self.age += 1
        return obs, float(reward), bool(terminated), self.age >= self.steps and not terminated, info

    def close(self) -> None:
        self.env.close()


@cache
def _goals(task: str) -> tuple[Any, Any]:
    """The class of a Meta-World task, and its 50 goals."""
    from metaworld import MT1

    if task not in MT1.ENV_NAMES:
        raise ValueError(f"make: wanted a Meta-World task such as reach-v3, got {task!r}")
    benchmark = MT1(task, seed=GOALS)  # type: ignore[no-untyped-call, unused-ignore]
    return benchmark.train_classes[task], benchmark.train_tasks


def atari(game: str, frames: int = 108_000) -> Any:
    """An Atari game such as Pong, as Machado et al. (2018) recommend: sticky actions, all 18 actions, a lost life does
    not end an episode. An observation is the last four grey frames, uint8[4, 84, 84]; an episode is truncated after
    `frames` frames of the game.
    """
    require(f"atari:{game}", "ale_py", "cv2", extra="atari")
    import ale_py
    import gymnasium
    from gymnasium.wrappers import AtariPreprocessing, FrameStackObservation

    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
    gymnasium.register_envs(ale_py)
    env: Any = gymnasium.make(
        f"ALE/{game}-v5",
        frameskip=1,
        repeat_action_probability=STICKY,
        full_action_space=True,
        max_num_frames_per_episode=frames,
        disable_env_checker=True,
    )
    return FrameStackObservation(AtariPreprocessing(env, noop_max=0, frame_skip=SKIP, screen_size=SIDE), STACK)


def close(env: Any) -> None:
    """Close an environment, if it can be closed."""
    if hasattr(env, "close"):
        env.close()


MAKERS: dict[str, Callable[..., Any]] = {"minatar": MinAtar, "meta-world": MetaWorld, "atari": atari}
"""Prefix of `make`, before the colon → the function that makes the environment named after the colon."""
