"""Outputs of the networks at the time when an experience was stored, for methods that pull towards them."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from crystalrl.agents.base import Agent
from crystalrl.agents.pop_art import in_units
from crystalrl.losses import Distance, anchor_losses, gaussian_divergence
from crystalrl.methods.base import Method, Setup, read_slots
from crystalrl.types import Anchor, Batch


class Recorded(Method):
    """Every experience belongs to the stream while it is among the newest, and to the buffer afterwards.

    Invariant: `outputs[key][l, n]` is what the network gave for the experience in slot n when it was stored, and
    `arrival[l, n]` how many had been stored before. The last column is spare, for steps not stored.
    """

    def __init__(self, setup: Setup, window: float) -> None:
        if not 0 <= window <= 1:
            raise ValueError(f"window: wanted a number in [0, 1], got {window}")
        lanes, slots, device = setup.memory.lanes, setup.memory.capacity, setup.agent.theta.device
        self.agent, self.memory, self.window = setup.agent, setup.memory, round(window * slots)
        self.outputs = empty_outputs(setup, slots + 1)
        self.pull: tuple[Batch, dict[str, Anchor]] | None = None
        """The batch that is learnt from, and its anchors."""
        self.arrival = torch.zeros(lanes, slots + 1, dtype=torch.int64, device=device)
        self.count = torch.zeros(lanes, 1, dtype=torch.int64, device=device)
        """int64[L, 1]: experiences stored so far."""

    @torch.no_grad()
    def stored(self, slots: Tensor) -> None:
        """Record the outputs at the experiences just stored."""
        flat = slots.flatten(1)
        valid, spare = flat >= 0, self.memory.capacity
        at = torch.where(valid, flat, spare)
        for key, output in self.agent.outputs(read_slots(self.memory, flat.clamp_min(0))).items():
            self.outputs[key].scatter_(1, at[..., None].expand_as(output), output)
        self.arrival.scatter_(1, at, self.count + valid.cumsum(1) - 1)
        self.count += valid.sum(1, keepdim=True)

    def in_buffer(self, batch: Batch) -> Tensor:
        """bool[L, B]: the samples that are no longer among the newest."""
        return self.count - self.arrival.gather(1, batch.index) > self.window

    def anchors(self, batch: Batch, coefficients: Mapping[str, Tensor]) -> dict[str, Anchor]:
        """Anchors to the recorded outputs, with coefficients [L, B] by output."""
        anchors = {}
        for key, coefficient in coefficients.items():
            recorded = self.outputs[key]
            index = batch.index[..., None].expand(-1, -1, recorded.shape[-1])
            anchors[key] = Anchor(recorded.gather(1, index), coefficient)
        return anchors

    def edit_gradients(self, agent: Agent, gradients: dict[str, Tensor]) -> dict[str, Tensor]:
        """The gradients plus those of the pull towards the recorded outputs."""
        return gradients if self.pull is None else with_pull(agent, gradients, *self.pull)

    def tensors(self) -> dict[str, Tensor]:
        own = {f"outputs.{key}": recorded for key, recorded in self.outputs.items()}
        return {**own, "arrival": self.arrival, "count": self.count}


@torch.no_grad()
def empty_outputs(setup: Setup, count: int) -> dict[str, Tensor]:
    """Zeros [L, count, …] of the shape of every output of the agent."""
    none = torch.zeros(setup.memory.lanes, 1, dtype=torch.int64, device=setup.memory.device)
    outputs = setup.agent.outputs(read_slots(setup.memory, none))
    return {key: output.new_zeros(len(output), count, *output.shape[2:]) for key, output in outputs.items()}


def per_number(agent: Agent, key: str) -> float:
    """1 / the numbers that an output consists of: turns its distance from another one, a sum over them, into a mean. A
    Gaussian counts once per dimension, and each of twin critics counts as an output."""
    outputs = agent.parts[key].network.outputs
    return 1 / (outputs // 2 if agent.distances.get(key) is gaussian_divergence else outputs)


def with_pull(
    agent: Agent,
    gradients: dict[str, Tensor],
    batch: Batch,
    anchors: Mapping[str, Anchor],
    distances: Mapping[str, Distance] | None = None,
) -> dict[str, Tensor]:
    """The gradients of some parts plus those of coefficient · distance of their outputs from the anchors; values are
    compared in the unit of their task, if there is one."""
    outputs, anchors = agent.outputs(batch), {name: anchors[name] for name in gradients}
    if agent.scale is not None and "q" in anchors:
        unit = agent.scale.unit(batch.index, batch.context)
        outputs, anchors = {**outputs, "q": outputs["q"] / unit.unsqueeze(-1)}, in_units(anchors, unit)
    loss = anchor_losses(outputs, anchors, agent.distances if distances is None else distances)
    extra = torch.autograd.grad(loss.sum(), [agent.parts[name].theta for name in gradients])
    return {name: g + more for (name, g), more in zip(gradients.items(), extra, strict=True)}
