"""Distillation of stored outputs: at the end of a task, the network's outputs at its stored experiences are stored.

The method needs to know when a task ends. From then on, a replayed old experience pulls the outputs towards the stored
ones (Buzzega et al. 2020, with the outputs taken at the end of the task). It works with any memory; with a reservoir it
is a strong baseline for continual replay.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from crystalrl.agents.base import Agent
from crystalrl.lanes import PerLane, lane_values, per_lane
from crystalrl.methods.base import Method, Setup, read_slots, refuse
from crystalrl.methods.recorded import empty_outputs
from crystalrl.types import Anchor, Batch, Memory

CHUNK = 1024
"""Slots evaluated at once."""


@dataclass(frozen=True)
class DistillParams:
    """Settings of distillation; `coefficient` may be one number per lane."""

    coefficient: PerLane = 0.1
    """Factor of the distance between output and stored output (squared, or the Bhattacharyya distance for a Gaussian
    policy) in the loss of a replayed experience of an earlier task; 0 switches it off."""

    def __post_init__(self) -> None:
        if not all(value >= 0 for value in lane_values(self.coefficient)):
            raise ValueError(f"coefficient: wanted numbers ≥ 0, got {self.coefficient}")


class Distill(Method):
    """What the agent acts by, its policy or its values, stored by slot.

    Invariant: `held[l, n]` is 1 if `outputs[key][l, n]` belong to the experience in that slot, else 0.
    """

    boundaries = True

    def __init__(self, setup: Setup, params: DistillParams) -> None:
        agent, memory = setup.agent, setup.memory
        refuse("distill", memory.anchors is not None, "a memory without anchors", "one with anchors")
        lanes, slots, device = memory.lanes, memory.capacity, agent.theta.device
        self.memory = memory
        self.coefficient = per_lane("coefficient", params.coefficient, lanes, device, torch.float32)
        held = "policy" if "policy" in agent.parts else "q"
        self.outputs = {held: empty_outputs(setup, slots)[held]}
        self.held = torch.zeros(lanes, slots + 1, device=device)
        """float32[L, N + 1]: 1 for slots with stored outputs; the last column is spare, for steps not stored."""

    def stored(self, slots: Tensor) -> None:
        """Mark rewritten slots as having no stored outputs."""
        spare, flat = self.held.shape[1], slots.flatten(1)
        self.held.scatter_(1, flat + spare * (flat < 0), 0.0)

    @torch.no_grad()
    def task_end(self, agent: Agent, memory: Memory, task: int) -> None:
        """Store the outputs at every experience that has none yet: those of the task that ends."""
        for first in range(0, memory.capacity, CHUNK):
            slots = torch.arange(first, min(first + CHUNK, memory.capacity), device=memory.device)
            part = slice(first, first + len(slots))
            output = agent.outputs(read_slots(self.memory, slots.expand(memory.lanes, -1)))
            old = self.held[:, part, None] > 0
            for key, stored in self.outputs.items():
                stored[:, part] = torch.where(old, stored[:, part], output[key])
        self.held.fill_(1.0)

    def augment(self, batch: Batch) -> Batch:
        """The batch with anchors where outputs are stored; elsewhere the coefficient is 0."""
        strength = self.held.gather(1, batch.index) * self.coefficient
        targets = {
            key: stored.gather(1, batch.index[..., None].expand(-1, -1, stored.shape[-1]))
            for key, stored in self.outputs.items()
        }
        return replace(batch, anchor={key: Anchor(target, strength) for key, target in targets.items()})

    def tensors(self) -> dict[str, Tensor]:
        return {**{f"outputs.{key}": stored for key, stored in self.outputs.items()}, "held": self.held}
