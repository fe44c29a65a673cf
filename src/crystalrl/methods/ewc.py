"""Elastic weight consolidation (Kirkpatrick et al. 2017), per task and online (Schwarz et al. 2018).

Both pull every parameter towards a centre with the strength of its Fisher information. Summed over tasks, the penalties
Σ_k F_k·(θ − θ_k)² equal F·(θ − c)² up to a constant, with F = Σ F_k and c = Σ F_k·θ_k / F: so two rows per lane are
enough for any number of tasks. The online form lets F decay and centres on the newest parameters.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from crystalrl.agents.base import Agent, Part
from crystalrl.lanes import PerLane
from crystalrl.methods.base import Setup
from crystalrl.methods.quadratic import Quadratic, QuadraticParams
from crystalrl.methods.sensitivity import mean_gradients
from crystalrl.random import Stream
from crystalrl.types import Batch, Memory


@dataclass(frozen=True)
class EWCParams(QuadraticParams):
    """Settings of elastic weight consolidation; `strength` may be one number per lane."""

    strength: PerLane = 400.0
    """Factor of the penalty ½·Σ F·(θ − c)²; 0 switches it off. 400: Kirkpatrick et al. 2017, for Atari games."""
    critics: bool = True
    """Protect the critics as well as the policy, if the agent has one."""
    online: bool = False
    """One decaying Fisher information centred on the newest parameters, instead of the sum over tasks."""
    decay: float = 0.95
    """Factor of the old Fisher information at the end of each task, in the online form (Schwarz et al. 2018)."""
    samples: int = 512
    """Experiences from which a task's Fisher information is estimated."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.decay <= 1:
            raise ValueError(f"decay: wanted a number in [0, 1], got {self.decay}")
        if self.samples < 1:
            raise ValueError(f"samples: wanted a whole number ≥ 1, got {self.samples}")


class EWC(Quadratic):
    """The importance is the Fisher information of the output distribution around the network's outputs."""

    factor = 0.5

    def __init__(self, setup: Setup, params: EWCParams) -> None:
        super().__init__(setup, params)
        self.params, self.streams = params, setup.streams

    def tensors(self) -> dict[str, Tensor]:
        return {**super().tensors(), "ticks": self.streams.ticks}

    def measured(self, agent: Agent, memory: Memory) -> dict[str, Tensor]:
        """The Fisher information, from replayed experiences."""
        batch = memory.sample(min(self.params.samples, memory.capacity))
        return {name: self._information(agent.parts[name], batch) for name in self.importance}

    def _information(self, part: Part, batch: Batch) -> Tensor:
        rows, network = len(part.theta), part.network
        count = batch.reward.shape[1] * network.outputs * network.atoms
        uniform = self.streams.uniform(Stream.EVALUATE, count * (rows // len(batch.reward)))
        signs = (2.0 * (uniform < 0.5) - 1.0).to(torch.float32).view(rows, batch.reward.shape[1], -1)
        return fisher_diagonal(part, batch, signs)

    def merge(self, name: str, found: Tensor, theta: Tensor) -> None:
        """Add the Fisher information; the centre is the mean of the tasks' parameters, weighted by it."""
        if self.params.online:
            self.importance[name].mul_(self.params.decay)
            super().merge(name, found, theta)
            return
        total = self.importance[name].add_(found)
        share = torch.where(total > 0, found / total.clamp_min(1e-30), 1.0)
        self.centre[name].lerp_(theta, share)


def fisher_diagonal(part: Part, batch: Batch, signs: Tensor) -> Tensor:
    """Mean over the batch of Σ_a (∂y_a/∂θ / σ_a)², float32[rows, P]: the Fisher information of Gaussians around the
    outputs y, with σ = 1 unless the part has a `precision`.

    Random signs [rows, B, outputs] of ±1 let one backward pass replace one per output: E[(Σ_a ±∂y_a)²] = Σ_a (∂y_a)².
    """

    def signed(outputs: Tensor) -> Tensor:
        flat = outputs.flatten(2)
        return flat * signs if part.precision is None else flat * signs * part.precision(flat.detach())

    return mean_gradients(part.network, part.theta, part.inputs(batch), signed, torch.square)
