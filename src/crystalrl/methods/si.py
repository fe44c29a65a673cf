"""Synaptic intelligence (Zenke et al. 2017): parameters matter as far as their changes lowered the loss.

Along the path of a task, ω = −Σ g·Δθ for each parameter, with g the gradient of the loss without the penalty. When the
task ends, Ω becomes max(Ω + ω / (D² + ξ), 0), with D the parameter's change over the task.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from crystalrl.agents.base import Agent
from crystalrl.lanes import PerLane
from crystalrl.methods.base import Setup
from crystalrl.methods.quadratic import Quadratic, QuadraticParams
from crystalrl.types import Memory


@dataclass(frozen=True)
class SIParams(QuadraticParams):
    """Settings of synaptic intelligence; `strength` may be one number per lane."""

    strength: PerLane = 0.1
    """Factor c of Σ Ω·(θ − θ_k)²; 0 switches it off. 0.1: Zenke et al. 2017, for permuted MNIST."""
    damping: float = 0.1
    """ξ, which bounds the importance of a parameter that hardly changed (Zenke et al. 2017)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.damping > 0:
            raise ValueError(f"damping: wanted a number > 0, got {self.damping}")


class SI(Quadratic):
    """Invariant: `path` holds ω up to the last step but one; `slope` and `before` are gradient and parameters at it."""

    def __init__(self, setup: Setup, params: SIParams) -> None:
        super().__init__(setup, params)
        self.damping = params.damping
        self.path, self.slope = ({name: torch.zeros_like(part) for name, part in self.centre.items()} for _ in range(2))
        self.before = {name: part.clone() for name, part in self.centre.items()}

    @torch.no_grad()
    def edit_gradients(self, agent: Agent, gradients: dict[str, Tensor]) -> dict[str, Tensor]:
        """Follow the path; the gradients stay as they are."""
        for name in gradients.keys() & self.path.keys():
            theta = agent.parts[name].theta
            self._settle(name, theta)
            pull = 2 * self.factor * self.strength[name] * self.importance[name] * (theta - self.centre[name])
            self.slope[name].copy_(gradients[name] - pull)
        return gradients

    def _settle(self, name: str, theta: Tensor) -> None:
        """Add the last step to the path."""
        self.path[name].addcmul_(self.slope[name], theta - self.before[name], value=-1)
        self.before[name].copy_(theta)

    @torch.no_grad()
    def measured(self, agent: Agent, memory: Memory) -> dict[str, Tensor]:
        """The importance of the task that ends; a new path begins."""
        found = {}
        for name, path in self.path.items():
            theta = agent.parts[name].theta
            self._settle(name, theta)
            found[name] = path / ((theta - self.centre[name]).square() + self.damping)
            path.zero_()
            self.slope[name].zero_()
        return found

    def merge(self, name: str, found: Tensor, theta: Tensor) -> None:
        super().merge(name, found, theta)
        self.importance[name].clamp_min_(0)

    def tensors(self) -> dict[str, Tensor]:
        named = {"path": self.path, "slope": self.slope, "before": self.before}
        own = {f"{what}.{name}": tensor for what, parts in named.items() for name, tensor in parts.items()}
        return super().tensors() | own
