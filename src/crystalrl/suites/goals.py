"""Rewards of goal-conditioned Gymnasium environments for any goal, for many experiences at once."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from crystalrl.suites.sizes import started
from crystalrl.suites.tasks import Task
from crystalrl.suites.worker import set_physics
from crystalrl.types import GoalSpace


def goal_space(tasks: Sequence[Task], ids: Sequence[int], goal: tuple[int, int] | None) -> GoalSpace | None:
    """Where observations show goals, `goal` being the start of the achieved one and the length of each; None if they
    show none, or if a task is redefined: an experience does not say which definition it belongs to.
    """
    if goal is None or len(set(ids)) < len(ids):
        return None
    start, width = goal
    return GoalSpace(slice(start, start + width), slice(start + width, start + 2 * width), Rewards(tasks), False)


class Rewards:
    """Rewards for achieved and desired goals, computed by separate environments, one per task."""

    def __init__(self, tasks: Sequence[Task]) -> None:
        self.tasks = tasks

    @cached_property
    def envs(self) -> list[Any]:
        """The unwrapped environment of every task."""
        made = [started(task).unwrapped for task in self.tasks]
        for env, task in zip(made, self.tasks, strict=True):
            set_physics(env, task.physics)
        return made

    def __call__(self, achieved: Tensor, desired: Tensor, context: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """Rewards float32[…] for goals […, G] of tasks int[…], and whether they end the episode, bool[…]; None if the
        environments do not say. Without ids there is one task."""
        places = achieved.shape[:-1]
        task = torch.zeros(places, dtype=torch.int64) if context is None else context.cpu().to(torch.int64)
        one, other = (goal.detach().cpu().numpy().reshape(-1, goal.shape[-1]) for goal in (achieved, desired))
        reward = np.zeros(len(one), np.float32)
        ends = np.zeros(len(one), bool) if all(hasattr(env, "compute_terminated") for env in self.envs) else None
        for number in task.unique().tolist():
            rows = (task.flatten() == number).numpy()
            env, limit = self.envs[number], self.tasks[number].clip or np.inf
            reward[rows] = np.clip(_rewards(env, one[rows], other[rows]), -limit, limit)
            if ends is not None:
                pairs = zip(one[rows], other[rows], strict=True)  # not all environments take many at once
                ends[rows] = [bool(env.compute_terminated(a, d, {})) for a, d in pairs]
        sent = torch.from_numpy(reward).view(places).to(achieved.device)
        return sent, None if ends is None else torch.from_numpy(ends).view(places).to(achieved.device)


def _rewards(env: Any, achieved: NDArray[Any], desired: NDArray[Any]) -> NDArray[Any]:
    found = np.asarray(env.compute_reward(achieved, desired, [{}] * len(achieved)))
    if found.shape != (len(achieved),):
        raise ValueError(
            f"compute_reward of {type(env).__name__}: wanted one reward for each of {len(achieved)} goals, "
            f"got the shape {found.shape}"
        )
    return found
