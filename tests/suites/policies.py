"""Policies that do not learn."""

import torch

from crystalrl.suites.base import Policy, Suite
from crystalrl.suites.square import STRIDE, SquareTasks


def random_action(made: Suite, lanes: int, envs: int, random: torch.Generator) -> torch.Tensor:
    """Actions [L, E, …], all equally likely."""
    if isinstance(made.action, int):
        return torch.randint(made.action, (lanes, envs), generator=random)
    return 2 * torch.rand(lanes, envs, *made.action, generator=random) - 1


def still(obs: torch.Tensor, context: torch.Tensor | None) -> torch.Tensor:
    """Always the first action."""
    return torch.zeros(*obs.shape[:2], dtype=torch.int64)


def knowing(tasks: SquareTasks, action: int | tuple[int, ...], at: float | None = None) -> Policy:
    """A policy that knows goal and meaning of the actions in the unit square, and goes the shortest way.

    It takes the task from the one-hot part of the observation, or believes that it is always in stage `at`.
    """

    def policy(obs: torch.Tensor, context: torch.Tensor | None = None) -> torch.Tensor:
        believed = obs[..., 2:].argmax(-1) if at is None else torch.full(obs.shape[:2], at)
        stage = believed.to(tasks.stage_dtype)
        way = (tasks.goals(stage) - (obs[..., :2] + 2) / 4) / STRIDE
        if isinstance(action, int):
            choices = [torch.full(obs.shape[:2], choice) for choice in range(action)]
            left = torch.stack([(way - tasks.moves(stage, choice)).norm(dim=-1) for choice in choices], -1)
            return left.argmin(-1)
        axes = [tasks.moves(stage, axis.expand_as(way)) for axis in torch.eye(2)]  # orthogonal, of length 1
        wanted = torch.stack([(way * axis).sum(-1) for axis in axes], -1)
        return wanted / wanted.abs().amax(-1, keepdim=True).clamp_min(1.0)

    return policy
