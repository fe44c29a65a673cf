"""Elastic weight consolidation (Kirkpatrick et al. 2017), per task and online (Schwarz et al. 2018).

Both pull every parameter towards a centre with the strength of its Fisher information. Summed over tasks, the penalties
Σ_k F_k·(θ − θ_k)² equal F·(θ − c)² up to a constant, with F = Σ F_k and c = Σ F_k·θ_k / F: so two rows per lane are
enough for any number of tasks. The online form lets F decay and centres on the newest parameters.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from crystalrl.agents.base import Agent, require_tensor
from crystalrl.agents.networks import ROW, LaneNetwork
from crystalrl.lanes import PerLane, lane_values, per_lane
from crystalrl.methods.base import Method
from crystalrl.random import Stream, Streams
from crystalrl.types import Memory


@dataclass(frozen=True)
class EWCParams:
    """Settings of elastic weight consolidation; `strength` may be one number per lane."""

    strength: PerLane = 1000.0
    """Factor of the penalty ½·Σ F·(θ − c)²; 0 switches it off."""
    online: bool = False
    """One decaying Fisher information centred on the newest parameters, instead of the sum over tasks."""
    decay: float = 0.95
    """Factor of the old Fisher information at the end of each task, in the online form."""
    samples: int = 512
    """Experiences from which a task's Fisher information is estimated."""

    def __post_init__(self) -> None:
        if not all(value >= 0 for value in lane_values(self.strength)):
            raise ValueError(f"strength: wanted numbers ≥ 0, got {self.strength}")
        if not 0 <= self.decay <= 1:
            raise ValueError(f"decay: wanted a number in [0, 1], got {self.decay}")
        if self.samples < 1:
            raise ValueError(f"samples: wanted a whole number ≥ 1, got {self.samples}")


class EWC(Method):
    """Invariant: `fisher` and `centre` [L, P] change in place and only at the end of a task; fisher ≥ 0."""

    def __init__(self, agent: Agent, params: EWCParams, streams: Streams) -> None:
        lanes = agent.theta.shape[0]
        self.params, self.streams = params, streams
        self.strength = per_lane("strength", params.strength, lanes, agent.theta.device, torch.float32)
        self.fisher = torch.zeros_like(agent.theta, requires_grad=False)
        self.centre = agent.theta.detach().clone()

    def tensors(self) -> dict[str, Tensor]:
        return {"fisher": self.fisher, "centre": self.centre, "ticks": self.streams.ticks}

    @property
    def nbytes(self) -> int:
        """Bytes of Fisher information and centre."""
        return self.fisher.nbytes + self.centre.nbytes

    def penalty(self, theta: Tensor) -> Tensor:
        """[L]: strength · ½ · Σ F·(θ − c)²."""
        pull = (self.fisher * (theta - self.centre).square()).reshape(len(theta), -1, ROW).sum(-1).sum(-1)
        return 0.5 * self.strength.squeeze(1) * pull

    def task_end(self, agent: Agent, memory: Memory, task: int) -> None:
        """Estimate the Fisher information from replayed experiences, and add it."""
        size = min(self.params.samples, memory.capacity)
        batch = memory.sample(size)
        uniform = self.streams.uniform(Stream.EVALUATE, size * agent.network.outputs * agent.network.atoms)
        signs = (2.0 * (uniform < 0.5) - 1.0).to(torch.float32).unflatten(1, (size, -1))
        measured = fisher_diagonal(agent.network, agent.theta, require_tensor(batch.obs), signs, batch.context)
        theta = agent.theta.detach()
        if self.params.online:
            self.fisher.mul_(self.params.decay).add_(measured)
            self.centre.copy_(theta)
        else:
            self.fisher.add_(measured)
            share = torch.where(self.fisher > 0, measured / self.fisher.clamp_min(1e-30), 1.0)
            self.centre.lerp_(theta, share)


def fisher_diagonal(
    network: LaneNetwork, theta: Tensor, obs: Tensor, signs: Tensor, context: Tensor | None = None
) -> Tensor:
    """Mean over the batch of Σ_a (∂Q_a/∂θ)², float32[L, P]: the Fisher information of a unit Gaussian around Q.

    Random signs [L, B, outputs] of ±1 let one backward pass replace one per output: E[(Σ_a ±∂Q_a)²] = Σ_a (∂Q_a)². A
    sample's gradient of a weight is input × output gradient, summed over the positions of a convolution.
    """
    inputs: list[Tensor] = []
    outputs: list[Tensor] = []

    def tap(index: int, x: Tensor, out: Tensor) -> Tensor:
        inputs.append(x.detach())
        outputs.append(out)
        return out

    total = (network(theta, obs, context, tap).flatten(2) * signs).sum()
    slopes = torch.autograd.grad(total, outputs)
    pieces = []
    for x, slope in zip(inputs, slopes, strict=True):
        bias = slope.unflatten(1, (obs.shape[1], -1)).sum(2)
        pieces += [_mean_square_outer(x, slope, obs.shape[1]).flatten(1), bias.square().mean(1)]
    known = sum(piece.shape[1] for piece in pieces)  # the rest is padding, or noise scales, which are not used here
    return torch.cat([*pieces, theta.new_zeros(theta.shape[0], network.size - known)], dim=1)


def _mean_square_outer(x: Tensor, slope: Tensor, batch: int) -> Tensor:
    """[L, in, out]: mean over B of (Σ_q x [L, B·Q, in] ⊗ slope [L, B·Q, out])²."""
    if x.shape[1] > batch:
        places = x.shape[1] // batch
        patch, slopes = (part.reshape(-1, places, part.shape[-1]) for part in (x, slope))
        each = torch.bmm(patch.transpose(1, 2), slopes)
        mean: Tensor = each.square().unflatten(0, (-1, batch)).mean(1)
        return mean
    if slope.shape[-1] == 1:  # a sum, because a product of width one rounds differently for one lane
        return (x.square() * slope.square()).mean(1).unsqueeze(-1)
    return torch.bmm(x.square().transpose(1, 2), slope.square()) / x.shape[1]
