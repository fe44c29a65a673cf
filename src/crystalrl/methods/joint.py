"""Multi-task training: all tasks at once, from the start. The upper reference, not a continual learner.

Environment e plays task e mod K, so that all K tasks are played in parallel if there are enough environments; with
fewer, they are played in turns, which change where another method would change the task.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from crystalrl.methods.base import Method, Setup, refuse


@dataclass(frozen=True)
class JointParams:
    """Multi-task training has no settings."""


class Joint(Method):
    """Changes which tasks are played, and nothing else."""

    boundaries = True

    def __init__(self, setup: Setup, params: JointParams) -> None:
        redefined = len(set(setup.tasks)) < len(setup.tasks)
        refuse("joint", redefined, "tasks that do not contradict each other", "a suite that redefines tasks")

    def stages(self, schedule: Tensor, task: int, envs: int) -> Tensor:
        """Stages int64[L, E]: all of them, in turn."""
        turn = (torch.arange(envs, device=schedule.device) + task * envs) % schedule.shape[1]
        return schedule[:, turn]
