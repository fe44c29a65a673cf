"""Memory-aware synapses (Aljundi et al. 2018): parameters matter as far as the outputs depend on them.

Importance: mean over states of |∂‖y‖²/∂θ|, summed over tasks. It needs no labels, so no rewards or TD targets.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from crystalrl.agents.base import Agent
from crystalrl.lanes import PerLane
from crystalrl.methods.base import Setup
from crystalrl.methods.quadratic import Quadratic, QuadraticParams
from crystalrl.methods.sensitivity import mean_gradients
from crystalrl.types import Memory


@dataclass(frozen=True)
class MASParams(QuadraticParams):
    """Settings of memory-aware synapses; `strength` may be one number per lane."""

    strength: PerLane = 1e4
    """Factor of Σ Ω·(θ − θ_k)²; 0 switches it off. 10⁴: Wołczyk et al. 2021, for Continual World."""
    samples: int = 2560
    """Experiences from which the importance is estimated; 10 batches of 256 in Wołczyk et al. 2021."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.samples < 1:
            raise ValueError(f"samples: wanted a whole number ≥ 1, got {self.samples}")


class MAS(Quadratic):
    """The importance is the mean absolute gradient of the squared norm of the outputs."""

    def __init__(self, setup: Setup, params: MASParams) -> None:
        super().__init__(setup, params)
        self.samples = params.samples

    def measured(self, agent: Agent, memory: Memory) -> dict[str, Tensor]:
        """The importance, from replayed experiences."""
        batch = memory.sample(min(self.samples, memory.capacity))
        parts = {name: agent.parts[name] for name in self.importance}
        return {
            name: mean_gradients(part.network, part.theta, part.inputs(batch), torch.square, torch.abs)
            for name, part in parts.items()
        }
