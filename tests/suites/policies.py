"""Policies that do not learn."""

import torch

from crystalrl.suites.gym import GymSuite


def random_action(made: GymSuite, lanes: int, envs: int, random: torch.Generator) -> torch.Tensor:
    """Actions [L, E, …], all equally likely."""
    if isinstance(made.action, int):
        return torch.randint(made.action, (lanes, envs), generator=random)
    return 2 * torch.rand(lanes, envs, *made.action, generator=random) - 1


def still(obs: torch.Tensor, context: torch.Tensor | None) -> torch.Tensor:
    """Always the first action."""
    return torch.zeros(*obs.shape[:2], dtype=torch.int64)
