"""The hooks of a continual-learning method. The base class does nothing: plain replay."""

from __future__ import annotations

from torch import Tensor

from crystalrl.agents.base import Agent
from crystalrl.types import Batch, Memory


class Method:
    """Called by a run: when tasks start and end, when experiences are stored, and in every update."""

    def task_start(self, agent: Agent, memory: Memory, task: int) -> None:
        """Called before the first step of a task."""

    def task_end(self, agent: Agent, memory: Memory, task: int) -> None:
        """Called after the last step of a task."""

    def stored(self, slots: Tensor) -> None:
        """Called with the slots just written, int64[L, E] or, with n-step returns, [L, E, n]; −1: none was."""

    def tensors(self) -> dict[str, Tensor]:
        """Live tensors that make up the method's state."""
        return {}

    @property
    def nbytes(self) -> int:
        """Bytes that the method stores in addition to the memory."""
        return 0

    def augment(self, batch: Batch) -> Batch:
        """The batch that the agent learns from, given the one that was drawn."""
        return batch

    def penalty(self, theta: Tensor) -> Tensor | None:
        """[L] to add to the loss for parameters [L, P]; None adds nothing."""
        return None
