"""What a continual-learning method may do. The base does nothing: plain replay."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from torch import Tensor

from crystalrl.agents.networks import LaneNetwork, Shape
from crystalrl.memory.base import ReplayMemory
from crystalrl.types import Batch, Evaluation


class Learner(Protocol):
    """What methods need of an agent."""

    network: LaneNetwork
    theta: Tensor
    anchors: Mapping[str, Shape]

    def evaluate(self, batch: Batch) -> Evaluation: ...


class Method:
    """Hooks of a run: `task_start`, `task_end`, `augment` what is replayed, add a `penalty` to the loss."""

    def task_start(self, agent: Learner, memory: ReplayMemory, task: int) -> None:
        """Called before the first step of a task."""

    def task_end(self, agent: Learner, memory: ReplayMemory, task: int) -> None:
        """Called after the last step of a task."""

    def stored(self, slots: Tensor) -> None:
        """Called with the slots int64[L, E] (or [L, E, n], with n-step returns) just written; −1: nothing was."""

    def tensors(self) -> dict[str, Tensor]:
        """Live tensors that make up its state."""
        return {}

    @property
    def nbytes(self) -> int:
        """Bytes it keeps, beside the memory, to protect old tasks."""
        return 0

    def augment(self, batch: Batch) -> Batch:
        """The batch the agent learns from, given the one that was drawn."""
        return batch

    def penalty(self, theta: Tensor) -> Tensor | None:
        """[L] to add to the loss for parameters [L, P]."""
        return None
