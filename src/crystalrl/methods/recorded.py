"""Outputs of the networks at the time when an experience was stored, for methods that pull towards them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor

from crystalrl.methods.base import Method, Setup, pull_by_divergence, read_slots, refuse
from crystalrl.types import Anchor, Batch


class Recorded(Method):
    """Every experience belongs to the stream while it is among the newest, and to the buffer afterwards.

    Invariant: `outputs[key][l, n]` is what the network gave for the experience in slot n when it was stored, and
    `arrival[l, n]` how many had been stored before. The last column is spare, for steps not stored.
    """

    def __init__(self, setup: Setup, window: float) -> None:
        refuse(type(self).__name__, setup.memory.anchors is not None, "a memory without anchors", "one with anchors")
        if not 0 <= window <= 1:
            raise ValueError(f"window: wanted a number in [0, 1], got {window}")
        lanes, slots, device = setup.memory.lanes, setup.memory.capacity, setup.agent.theta.device
        self.agent, self.memory, self.window = setup.agent, setup.memory, round(window * slots)
        pull_by_divergence(setup.agent)
        shapes = setup.agent.anchors
        self.outputs = {key: torch.zeros(lanes, slots + 1, *shape, device=device) for key, shape in shapes.items()}
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

    def pulled(self, batch: Batch, coefficients: Mapping[str, Tensor]) -> Batch:
        """The batch with anchors to the recorded outputs, with coefficients [L, B] by output."""
        anchors = {}
        for key, coefficient in coefficients.items():
            recorded = self.outputs[key]
            index = batch.index[..., None].expand(-1, -1, recorded.shape[-1])
            anchors[key] = Anchor(recorded.gather(1, index), coefficient)
        return replace(batch, anchor=anchors)

    def tensors(self) -> dict[str, Tensor]:
        own = {f"outputs.{key}": recorded for key, recorded in self.outputs.items()}
        return {**own, "arrival": self.arrival, "count": self.count}
