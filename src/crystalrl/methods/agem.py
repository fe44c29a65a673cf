"""A-GEM (Chaudhry et al. 2019): no step may increase the loss on a sample of earlier tasks, to first order.

With g the gradient of the batch and r that of a batch from earlier tasks: if g·r < 0, step along g − (g·r / r·r)·r.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from crystalrl.agents.base import Agent
from crystalrl.agents.networks import ROW
from crystalrl.methods.archive import Archive
from crystalrl.methods.base import Method, Setup
from crystalrl.types import Memory


@dataclass(frozen=True)
class AGEMParams:
    """Settings of A-GEM; the defaults are those of Wołczyk et al. 2021 for Continual World."""

    size: int = 10_000
    """Experiences that are kept of each task."""
    batch: int = 128
    """Experiences of earlier tasks in an update."""

    def __post_init__(self) -> None:
        if self.batch < 1:
            raise ValueError(f"batch: wanted a whole number ≥ 1, got {self.batch}")


class AGEM(Method):
    """Projects the gradients of all networks of a lane together."""

    boundaries = True

    def __init__(self, setup: Setup, params: AGEMParams) -> None:
        self.params, self.archive = params, Archive(setup, params.size)

    def stored(self, slots: Tensor) -> None:
        self.archive.stored(slots)

    def task_end(self, agent: Agent, memory: Memory, task: int) -> None:
        """Keep some of the task's experiences."""
        self.archive.extend()

    def edit_gradients(self, agent: Agent, gradients: dict[str, Tensor]) -> dict[str, Tensor]:
        """The gradients, projected where they conflict with those of earlier tasks."""
        if self.archive.known_empty:
            return gradients
        reference = agent.gradients(self.archive.sample(self.params.batch), list(gradients))
        lanes = len(agent.theta)
        dot, norm = lane_dot(gradients, reference, lanes), lane_dot(reference, reference, lanes)
        conflict = (dot < 0) & (self.archive.filled > 0)
        factor = torch.where(conflict, dot / norm.clamp_min(1e-30), 0.0)
        return {name: g - _rows(factor, g) * reference[name] for name, g in gradients.items()}

    def tensors(self) -> dict[str, Tensor]:
        return self.archive.tensors()


def lane_dot(one: Mapping[str, Tensor], other: Mapping[str, Tensor], lanes: int) -> Tensor:
    """[L]: the dot product of each lane over all parts, [L, P] or [2L, P]."""
    return torch.stack([_row_dots(one[name], other[name]).view(lanes, -1).sum(1) for name in one]).sum(0)


def _row_dots(one: Tensor, other: Tensor) -> Tensor:
    return (one * other).reshape(len(one), -1, ROW).sum(-1).sum(-1)


def _rows(factor: Tensor, gradient: Tensor) -> Tensor:
    """[rows, 1] from [L]."""
    return factor.repeat_interleave(len(gradient) // len(factor))[:, None]
