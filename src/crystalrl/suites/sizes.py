"""Sizes of environments, and the sizes that fit all tasks of a suite."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from crystalrl.suites.base import Shape
from crystalrl.suites.makers import close
from crystalrl.suites.tasks import Task
from crystalrl.suites.worker import BadWrapper, make


@dataclass(frozen=True)
class Sizes:
    """Sizes that fit all tasks of a suite. Smaller observations are padded with zeros. Discrete actions beyond a task's
    own wrap around; surplus dimensions of a box are ignored. If a task has discrete actions and the suite a box, equal
    intervals of the box's first dimension select the action.
    """

    obs: Shape
    action: int | Shape
    obs_dtype: torch.dtype = torch.float32
    stack: int | None = None
    """Frames in an observation, along its first axis, if it is a stack of frames."""
    goal: tuple[int, int] | None = None
    """Where the achieved goal begins in an observation, and the length of a goal; the desired one follows it. None:
    observations show no goals, or not all tasks show them at the same place."""


def sizes_of(task: Task) -> Sizes:
    """Sizes of the environment of a task."""
    env = started(task)
    try:
        return env_sizes(env)
    finally:
        close(env)


def started(task: Task) -> Any:
    """The environment of a task; a ValueError says why it cannot be made, with the package to install."""
    try:
        return make(vars(task))
    except BadWrapper:
        raise
    except ModuleNotFoundError as error:
        package = error.name or task.make.partition(":")[0]
        hint = f"pip install {package}, or run where {package} is"
        raise ValueError(f"make: wanted the package for {task.make}, got none: {hint}") from error
    except Exception as error:
        raise ValueError(f"make: wanted an environment, got {type(error).__name__}: {error}") from error


def env_sizes(env: Any) -> Sizes:
    """Sizes of an environment; raises for spaces that no agent here can use."""
    if hasattr(env, "observation_shape"):  # MinAtar
        return Sizes(env.observation_shape, int(env.action_space.n), torch.bool)
    seen = env.observation_space
    if seen.shape is None or len(seen.shape) not in (1, 3) or seen.dtype is None:
        raise ValueError(f"observations: wanted vectors or frames (H, W, C), got {seen}; a wrapper can change them")
    kind = torch.uint8 if seen.dtype == np.uint8 else torch.float32
    return Sizes(tuple(seen.shape), _action(env.action_space), kind, _stack(env), getattr(env, "goal", None))


def _stack(env: Any) -> int | None:
    """Frames in an observation, if FrameStackObservation is the last wrapper of an environment of images."""
    count = getattr(env, "stack_size", None)
    stacked = isinstance(count, int) and len(env.observation_space.shape) == 3
    return count if stacked and env.observation_space.shape[0] == count else None


def _action(space: Any) -> int | Shape:
    if hasattr(space, "n") and not getattr(space, "shape", ()):
        return int(space.n)
    bounded = hasattr(space, "low") and len(space.shape) == 1
    if not bounded or not (np.isfinite(space.low).all() and np.isfinite(space.high).all()):
        raise ValueError(f"actions: wanted discrete ones, or a vector with finite bounds, got {space}")
    return tuple(space.shape)


def largest(sizes: Sequence[Sizes]) -> Sizes:
    """The smallest sizes that fit all tasks; a box if any task has one, float32 if types differ."""
    obs: Shape = tuple(max(each) for each in zip(*(size.obs for size in sizes), strict=True))
    kinds = {size.obs_dtype for size in sizes}
    kind = kinds.pop() if len(kinds) == 1 else torch.float32
    stacks = {size.stack for size in sizes}
    stack = stacks.pop() if len(stacks) == 1 else None
    goals = {size.goal for size in sizes}
    goal = goals.pop() if len(goals) == 1 else None
    boxes = [size.action for size in sizes if not isinstance(size.action, int)]
    if boxes:
        return Sizes(obs, tuple(max(each) for each in zip(*boxes, strict=True)), kind, stack, goal)
    return Sizes(obs, max(size.action for size in sizes if isinstance(size.action, int)), kind, stack, goal)


def sizes_of_all(tasks: Sequence[Task]) -> Sizes:
    """Sizes that fit the environments of all tasks; errors name the tasks."""
    sizes = {}
    for task in tasks:
        try:
            sizes[task.name] = sizes_of(task)
        except ValueError as error:
            raise ValueError(f"tasks.{task.name}.{error}") from error
    return fitting(sizes)


def fitting(sizes: dict[str, Sizes]) -> Sizes:
    """Sizes that fit all tasks, by name; raises if discrete actions and boxes, or vectors and frames, are mixed."""
    boxes = [name for name, size in sizes.items() if not isinstance(size.action, int)]
    if boxes and len(boxes) < len(sizes):
        others = [name for name in sizes if name not in boxes]
        raise ValueError(f"tasks: wanted one kind of actions, got boxes in {_said(boxes)}, discrete in {_said(others)}")
    frames = [name for name, size in sizes.items() if len(size.obs) == 3]
    if frames and len(frames) < len(sizes):
        others = [name for name in sizes if name not in frames]
        raise ValueError(
            f"tasks: wanted one kind of observations, got frames in {_said(frames)}, vectors in {_said(others)}"
        )
    return largest(list(sizes.values()))


def _said(names: Sequence[str]) -> str:
    return ", ".join(names)
