"""Distillation of stored outputs: at the end of a task its stored experiences remember what the network said there.

The method is told where tasks end. From then on a replayed old experience pulls the outputs towards what was stored
(Buzzega et al. 2020, with the outputs taken at the end of the task). It works with any memory; with the reservoir it is
the strong baseline of continual replay.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from crystalrl.agents.optimiser import PerLane, lane_column
from crystalrl.memory.base import ReplayMemory
from crystalrl.methods.base import Learner, Method
from crystalrl.types import Anchor, Batch

CHUNK = 1024
"""Slots evaluated at once."""


@dataclass(frozen=True)
class DistillParams:
    """Settings of distillation; `coefficient` may be one number per lane."""

    coefficient: PerLane = 0.1
    """Factor of the distance between output and stored output (‖Q − stored Q‖² for Q values) in the loss of a replayed
    experience of an earlier task; 0 switches it off."""

    def __post_init__(self) -> None:
        values = self.coefficient if isinstance(self.coefficient, Sequence) else (self.coefficient,)
        if not all(value >= 0 for value in values):
            raise ValueError(f"coefficient: wanted numbers ≥ 0, got {self.coefficient}")


class Distill(Method):
    """Outputs by slot, of everything the agent can anchor.

    Invariant: `held[l, n]` says whether `outputs[key][l, n]` belong to the experience in the slot.
    """

    def __init__(self, agent: Learner, memory: ReplayMemory, params: DistillParams) -> None:
        lanes, slots, device = memory.lanes, memory.capacity, agent.theta.device
        self.coefficient = lane_column("coefficient", params.coefficient, lanes, device)
        self.outputs = {key: torch.zeros(lanes, slots, *shape, device=device) for key, shape in agent.anchors.items()}
        self.held = torch.zeros(lanes, slots + 1, device=device)
        """1 or 0, with a spare column for what was not stored."""

    def stored(self, slots: Tensor) -> None:
        """What is written anew has no outputs yet."""
        spare, flat = self.held.shape[1], slots.flatten(1)
        self.held.scatter_(1, flat + spare * (flat < 0), 0.0)

    def task_end(self, agent: Learner, memory: ReplayMemory, task: int) -> None:
        """Store the outputs of every experience that has none yet: those of the task that ends."""
        for first in range(0, memory.capacity, CHUNK):
            slots = torch.arange(first, min(first + CHUNK, memory.capacity), device=memory.device)
            part = slice(first, first + len(slots))
            output = agent.evaluate(_read(memory, slots.expand(memory.lanes, -1))).output
            assert output is not None
            old = self.held[:, part, None] > 0
            for key, stored in self.outputs.items():
                stored[:, part] = torch.where(old, stored[:, part], output[key])
        self.held.fill_(1.0)

    def augment(self, batch: Batch) -> Batch:
        """The batch with anchors where outputs are stored; elsewhere the coefficient is 0."""
        strength = self.held.gather(1, batch.index) * self.coefficient
        wanted = {
            key: stored.gather(1, batch.index[..., None].expand(-1, -1, stored.shape[-1]))
            for key, stored in self.outputs.items()
        }
        return replace(batch, anchor={key: Anchor(target, strength) for key, target in wanted.items()})

    def tensors(self) -> dict[str, Tensor]:
        return {**{f"outputs.{key}": stored for key, stored in self.outputs.items()}, "held": self.held}

    @property
    def nbytes(self) -> int:
        """Bytes held beside the memory."""
        return sum(stored.nbytes for stored in self.outputs.values()) + self.held.nbytes


def _read(memory: ReplayMemory, slots: Tensor) -> Batch:
    """The contents of slots int64[L, M], drawn or not; empty slots read as zeros."""
    parts = memory.arena.unpack(memory.arena.read(slots))
    return Batch(**parts, weight=torch.ones(slots.shape, device=slots.device), index=slots)
