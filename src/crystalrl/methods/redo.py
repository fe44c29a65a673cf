"""ReDo (Sokar et al. 2023): hidden units that have become dormant are recycled, so that the network stays plastic.

A unit's score is its mean activation over a batch divided by the mean of its layer. At fixed intervals, units with a
score ≤ τ get new incoming weights, outgoing weights 0, and no momentum. It protects nothing: it is the reference for
plasticity.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from crystalrl.agents.base import Part
from crystalrl.agents.networks import LaneNetwork, Layer
from crystalrl.methods.base import Method, Setup
from crystalrl.types import Batch


@dataclass(frozen=True)
class ReDoParams:
    """Settings of ReDo; the defaults are those of Sokar et al. 2023 for DQN."""

    threshold: float = 0.025
    """τ: units with a score of at most this are dormant."""
    every: int = 1000
    """Updates between two recyclings."""

    def __post_init__(self) -> None:
        if not self.threshold >= 0:
            raise ValueError(f"threshold: wanted a number ≥ 0, got {self.threshold}")
        if self.every < 1:
            raise ValueError(f"every: wanted a whole number ≥ 1, got {self.every}")


class ReDo(Method):
    """Recycles in all networks of the agent, with the batch that the next update learns from."""

    def __init__(self, setup: Setup, params: ReDoParams) -> None:
        self.params, self.agent, self.streams = params, setup.agent, setup.streams
        self.updates = torch.zeros((), dtype=torch.int64, device=setup.agent.theta.device)

    @torch.no_grad()
    def augment(self, batch: Batch) -> Batch:
        """Recycle if it is time; the batch stays as it is."""
        self.updates += 1
        due = self.updates % self.params.every == 0
        if self.updates.device.type != "cpu" or bool(due):  # a CUDA graph cannot branch
            for part in self.agent.parts.values():
                self._recycle(part, batch, due)
        return batch

    def _recycle(self, part: Part, batch: Batch, due: Tensor) -> None:
        dormant = [(score <= self.params.threshold) & due for score in scores(part, batch)]
        lanes = len(self.streams.seeds)
        fresh = torch.cat([part.network.initial(self.streams) for _ in range(len(part.theta) // lanes)], dim=1)
        fresh_layers = part.network.split(fresh.view_as(part.theta))
        for tensor in (part.theta, part.optimiser.first, part.optimiser.second):
            layers = part.network.split(tensor.detach())
            for layer, fresh_layer, units in zip(layers, fresh_layers, dormant, strict=False):
                _replace_incoming(layer, fresh_layer, units, blank=tensor is not part.theta)
            for index, units in enumerate(dormant):
                for weight in _outgoing(part.network, layers, index):
                    grouped = weight.unflatten(1, (-1, units.shape[1]))  # a convolution's channels come last
                    grouped.masked_fill_(units[:, None, :, None], 0.0)

    def tensors(self) -> dict[str, Tensor]:
        return {"updates": self.updates, "ticks": self.streams.ticks}


def scores(part: Part, batch: Batch) -> list[Tensor]:
    """[rows, units] of every hidden layer: mean activation over the batch, relative to the mean of the layer."""
    inputs, context = part.inputs(batch)
    hidden = part.network.first_head
    found: list[Tensor] = []

    def tap(index: int, x: Tensor, out: Tensor) -> Tensor:
        if index < hidden:
            active = torch.nn.functional.layer_norm(out, out.shape[-1:]) if part.network.layer_norm else out
            mean = torch.relu(active).mean(1)
            found.append(mean / mean.mean(-1, keepdim=True).clamp_min(1e-30))
        return out

    part.network(part.theta, inputs, context, tap)
    return found


def _replace_incoming(layer: Layer, fresh: Layer, units: Tensor, blank: bool) -> None:
    """New weights and biases of the units bool[rows, out]; zeros if `blank`."""
    for own, new in zip(layer, fresh, strict=True):
        own.copy_(torch.where(units[:, None, :], torch.zeros_like(new) if blank else new, own))


def _outgoing(network: LaneNetwork, layers: Sequence[Layer], index: int) -> list[Tensor]:
    """Weights [rows, in, out] that read a hidden layer: those of the next layer, or of the heads."""
    heads = network.first_head
    readers = (index + 1,) if index + 1 < heads else range(heads, len(network.layers))
    return [layers[reader][0] for reader in readers]
