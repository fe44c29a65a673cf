"""Quadratic penalties: every protected parameter is pulled towards a centre, with the strength of its importance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from crystalrl.agents.base import Agent
from crystalrl.agents.networks import ROW
from crystalrl.lanes import PerLane, lane_values, per_lane
from crystalrl.methods.base import Method, Setup, protected_parts
from crystalrl.types import Memory


@dataclass(frozen=True)
class QuadraticParams:
    """Settings of every quadratic penalty; `strength` may be one number per lane."""

    strength: PerLane = 1.0
    """Factor of the penalty; 0 switches it off."""
    critics: bool = False
    """Protect the critics, too, if the agent has a policy (Wołczyk et al. 2021 protect the policy only)."""

    def __post_init__(self) -> None:
        if not all(value >= 0 for value in lane_values(self.strength)):
            raise ValueError(f"strength: wanted numbers ≥ 0, got {self.strength}")


class Quadratic(Method):
    """Invariant: `importance` ≥ 0 and `centre`, by part, change in place and only at the end of a task."""

    boundaries = True
    factor: ClassVar[float] = 1.0
    """The penalty is factor · strength · Σ importance·(θ − centre)²."""

    def __init__(self, setup: Setup, params: QuadraticParams) -> None:
        theta = setup.agent.theta
        strength = per_lane("strength", params.strength, len(theta), theta.device, torch.float32)
        protected = protected_parts(setup.agent, params.critics)
        parts = {name: part.theta.detach() for name, part in protected.items()}
        self.strength = {name: strength.repeat_interleave(len(part) // len(theta), 0) for name, part in parts.items()}
        """float32[rows, 1] of every protected part: the policy, or the Q network if there is none, first."""
        self.importance = {name: torch.zeros_like(part) for name, part in parts.items()}
        self.centre = {name: part.clone() for name, part in parts.items()}

    def penalty(self, part: str, theta: Tensor) -> Tensor | None:
        """[rows]: factor · strength · Σ importance·(θ − centre)²."""
        if part not in self.importance:
            return None
        pull = (self.importance[part] * (theta - self.centre[part]).square()).reshape(len(theta), -1, ROW)
        return self.factor * self.strength[part].squeeze(1) * pull.sum(-1).sum(-1)

    def measured(self, agent: Agent, memory: Memory) -> dict[str, Tensor]:
        """Importance [rows, P] of the parameters for the task that ends, by part."""
        raise NotImplementedError

    def task_end(self, agent: Agent, memory: Memory, task: int) -> None:
        """Add the task's importance; the centre becomes the newest parameters."""
        for name, found in self.measured(agent, memory).items():
            self.merge(name, found, agent.parts[name].theta.detach())

    def merge(self, name: str, found: Tensor, theta: Tensor) -> None:
        self.importance[name].add_(found)
        self.centre[name].copy_(theta)

    def tensors(self) -> dict[str, Tensor]:
        named = {"importance": self.importance, "centre": self.centre}
        return {f"{what}.{name}": tensor for what, parts in named.items() for name, tensor in parts.items()}
