"""Values normalised per task (Pop-Art; van Hasselt et al. 2016, Hessel et al. 2019), many lanes at once.

A value network with one head per task gives normalised values n; the value is Q = σ·n + μ, with the running mean μ and
scale σ of the task's TD targets. When μ and σ change, the last layer is changed so that all Q stay the same.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from crystalrl.agents.networks import LaneNetwork
from crystalrl.types import Anchor

RATE = 3e-4
"""Smallest step of the running statistics; the first steps of a task are plain means."""
SMALLEST = 1e-2
"""Lower bound of σ, relative to the root mean square of the targets."""
POSITIVE = 1e-8
"""Lower bound of σ in the unit of rewards, so that targets that are all 0 divide nothing by 0."""


class PopArt:
    """Statistics of L lanes and T tasks. Invariant: `observe` changes no value Q of the given networks.

    A task starts with its first reward that is not 0; until then its values are those of the network.
    """

    def __init__(self, lanes: int, tasks: int, device: torch.device) -> None:
        self.mean = torch.zeros(lanes, tasks, dtype=torch.float64, device=device)
        self.square = torch.ones_like(self.mean)
        """Running mean of the squared targets."""
        self.seen = torch.zeros(lanes, tasks, dtype=torch.int64, device=device)
        """Batches of the task since it started, counted from 1; 0: it has not started."""

    def tensors(self) -> dict[str, Tensor]:
        """Live tensors that make up the state."""
        return {"pop_art.mean": self.mean, "pop_art.square": self.square, "pop_art.seen": self.seen}

    @property
    def sigma(self) -> Tensor:
        """σ, float64[L, T]."""
        variance = torch.maximum(self.square - self.mean.square(), SMALLEST**2 * self.square)
        return variance.sqrt().clamp_min(POSITIVE)

    def unit(self, samples: Tensor, context: Tensor | None) -> Tensor:
        """σ float32[L, B] of the task of each sample [L, B, …]."""
        return self.sigma.gather(1, _tasks(samples, context)).to(torch.float32)

    def values(self, normalised: Tensor, context: Tensor | None) -> Tensor:
        """Q [L, B, A] of normalised values [L, B, A]."""
        mean = self.mean.gather(1, _tasks(normalised, context)).to(torch.float32)
        return normalised * self.unit(normalised, context).unsqueeze(-1) + mean.unsqueeze(-1)

    @torch.no_grad()
    def start(self, reward: Tensor, context: Tensor | None) -> None:
        """Start tasks of which rewards [L, B] other than 0 are seen: σ is their root mean square.

        A new network's outputs mean nothing yet. In this unit they are as large as rewards, whatever the rewards' unit.
        """
        own = _one_hot(reward, context, self.mean.shape[1])
        size = (own * reward.double().square().unsqueeze(-1)).sum(1) / own.sum(1).clamp_min(1)
        starts = (self.seen == 0) & (size > 0)
        self.square.copy_(torch.where(starts, size, self.square))
        self.seen += starts

    @torch.no_grad()
    def observe(
        self, target: Tensor, context: Tensor | None, network: LaneNetwork, thetas: tuple[Tensor, Tensor]
    ) -> None:
        """Update the statistics of tasks that have started with targets [L, B], and the last layers of networks [L, P]
        or, for twins, [2L, P].
        """
        before_mean, before = self.mean.clone(), self.sigma
        own = _one_hot(target, context, self.mean.shape[1])
        count = own.sum(1)
        here = (count > 0) & (self.seen > 0)
        rate = (1.0 / self.seen.clamp_min(1).double()).clamp_min(RATE) * here
        self.seen += here
        for running, seen in ((self.mean, target.double()), (self.square, target.double().square())):
            running.lerp_((own * seen.unsqueeze(-1)).sum(1) / count.clamp_min(1), rate)
        factor, shift = before / self.sigma, (before_mean - self.mean) / self.sigma
        for theta in thetas:
            _rescale(network, theta.detach(), factor.to(torch.float32), shift.to(torch.float32))


def _one_hot(samples: Tensor, context: Tensor | None, tasks: int) -> Tensor:
    """The task of each sample [L, B] as float64[L, B, T]."""
    return torch.nn.functional.one_hot(_tasks(samples, context), tasks).to(torch.float64)


def _tasks(samples: Tensor, context: Tensor | None) -> Tensor:
    """Task ids int64[L, B]; 0 if there is no context."""
    if context is None:
        return torch.zeros(samples.shape[:2], dtype=torch.int64, device=samples.device)
    return context.to(torch.int64)


def _rescale(network: LaneNetwork, theta: Tensor, factor: Tensor, shift: Tensor) -> None:
    """Multiply the last layer by factor [L, T] and add shift [L, T], in place. Advantages are not shifted: only their
    differences count.
    """
    copies = len(theta) // len(factor)
    factor, shift = (part.repeat_interleave(copies, 0)[:, None, :, None] for part in (factor, shift))
    last = network.split(theta)[network.first_head : len(network.layers)]
    for weight, bias in last:
        weight.unflatten(-1, (network.heads, -1)).mul_(factor)
        bias.unflatten(-1, (network.heads, -1)).mul_(factor)
    last[-1][1].unflatten(-1, (network.heads, -1)).add_(shift)


def in_units(anchors: Mapping[str, Anchor], unit: Tensor) -> dict[str, Anchor]:
    """Anchors of which those of values are divided by units [L, B]."""
    return {
        key: Anchor(anchor.target / unit.unsqueeze(-1), anchor.coefficient) if key in ("q", "advantage") else anchor
        for key, anchor in anchors.items()
    }
