"""Pop-Art (van Hasselt et al. 2016): value targets normalised for each task, outputs preserved when the scale changes.

With mean μ and scale σ of a task's targets, the network gives q and the value is σ·q + μ. The TD target in these units
is that of a reward (r + (discount − 1)·μ) / σ with the same discount: normalising a batch changes only its rewards.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from crystalrl.agents.base import Part
from crystalrl.types import Batch

SCALES = (1e-4, 1e6)
"""Smallest and largest σ (Hessel et al. 2019)."""


class PopArt:
    """Invariant: `update` leaves σ·q + μ of every head unchanged, up to rounding, in the network and its target."""

    def __init__(self, part: Part, lanes: int, rate: float) -> None:
        self.part, self.lanes, self.rate = part, lanes, rate
        tasks, device = part.network.heads, part.theta.device
        self.mean = torch.zeros(lanes, tasks, device=device)
        self.square = torch.ones(lanes, tasks, device=device)
        """float32[L, T]: first and second moment of the targets of each task."""
        self.held = torch.zeros(lanes, tasks, device=device)
        """float32[L, T]: 1 for tasks whose moments no longer change."""

    @property
    def scale(self) -> Tensor:
        """σ, float32[L, T]."""
        return (self.square - self.mean.square()).clamp_min(0).sqrt().clamp(*SCALES)

    def normalised(self, batch: Batch) -> Batch:
        """The batch with rewards in the units of its tasks."""
        assert batch.context is not None
        task = batch.context.to(torch.int64)
        mean, scale = self.mean.gather(1, task), self.scale.gather(1, task)
        return replace(batch, reward=(batch.reward + (batch.discount - 1) * mean) / scale)

    @torch.no_grad()
    def update(self, target: Tensor, task: Tensor) -> None:
        """Move the moments towards those of normalised targets [L, B] of tasks int64[L, B], and rescale the heads."""
        mean, scale = self.mean.clone(), self.scale
        value = target * scale.gather(1, task) + mean.gather(1, task)
        count = torch.zeros_like(mean).scatter_add_(1, task, torch.ones_like(value))
        step = self.rate * (count > 0) * (1 - self.held)
        for moment, seen in ((self.mean, value), (self.square, value.square())):
            found = torch.zeros_like(mean).scatter_add_(1, task, seen) / count.clamp_min(1)
            moment.lerp_(found, step)
        self._rescale(mean, scale)

    def _rescale(self, mean: Tensor, scale: Tensor) -> None:
        """Change the heads from the units of an old mean and scale [L, T] to the current ones."""
        network, copies = self.part.network, len(self.part.theta) // self.lanes
        factor = (scale / self.scale).repeat_interleave(copies, 0).repeat_interleave(network.outputs, 1)[:, None]
        shift = ((mean - self.mean) / self.scale).repeat_interleave(copies, 0).repeat_interleave(network.outputs, 1)
        for theta in (self.part.theta.detach(), self.part.target):
            assert theta is not None
            weight, bias = network.split(theta)[len(network.layers) - 1]
            weight.mul_(factor)
            bias.mul_(factor).add_(shift[:, None])

    def tensors(self) -> dict[str, Tensor]:
        """Live tensors that make up the state."""
        return {"popart.mean": self.mean, "popart.square": self.square, "popart.held": self.held}
