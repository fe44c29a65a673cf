"""The hooks of a continual-learning method. The base class does nothing: plain replay."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from crystalrl.agents.base import Agent, Part
from crystalrl.memory.base import ReplayMemory
from crystalrl.random import Streams
from crystalrl.types import Batch, GoalSpace, Memory


@dataclass(frozen=True)
class Setup:
    """What a method is attached to."""

    agent: Agent
    memory: ReplayMemory
    streams: Streams
    """The method's own random numbers."""
    tasks: Sequence[int]
    """Task id of every stage of the sequence; a repeated id: the task is redefined."""
    batch: int
    """Experiences per update."""
    goals: GoalSpace | None = None
    """Where observations show goals; None if they show none."""


class Method:
    """Called by a run: when tasks start and end, when experiences are stored, and in every update."""

    boundaries: ClassVar[bool] = False
    """Whether it is told when a task starts and ends."""
    ids: ClassVar[bool] = False
    """Whether it reads the task ids."""
    clears: ClassVar[bool] = False
    """Whether the memory is emptied when a task starts; updates then wait until it is warm again."""

    capturable = True
    """Whether an update with it can be captured as a CUDA graph."""

    def __init__(self, setup: Setup | None = None, params: object = None) -> None:
        """Attach the method to agent and memory; plain replay needs neither."""

    def task_start(self, agent: Agent, memory: Memory, task: int) -> None:
        """Called before the first step of a task."""

    def task_end(self, agent: Agent, memory: Memory, task: int) -> None:
        """Called after the last step of a task."""

    def stages(self, schedule: Tensor, task: int, envs: int) -> Tensor:
        """Stages int64[L] or [L, E] to play during a task, given those of all tasks int64[L, K] in training order."""
        return schedule[:, task]

    def stored(self, slots: Tensor) -> None:
        """Called with the slots just written, int64[L, E] or, with n-step returns, [L, E, n]; −1: none was."""

    def augment(self, batch: Batch) -> Batch:
        """The batch that the agent learns from, given the one that was drawn."""
        return batch

    def penalty(self, part: str, theta: Tensor) -> Tensor | None:
        """[L] (twins: [2L]) to add to the loss for the parameters [L, P] of a part of the agent; None adds nothing."""
        return None

    def edit_gradients(self, agent: Agent, gradients: dict[str, Tensor]) -> dict[str, Tensor]:
        """The gradients [L, P] to step along, by part, given those of the loss and the penalty."""
        return gradients

    def act(self, agent: Agent, obs: Tensor, epsilon: Tensor, context: Tensor | None) -> Tensor:
        """The exploring actions [L, E, …] at observations [L, E, …] of tasks int32[L, E]: the agent's."""
        return agent.act(obs, epsilon, context)

    def viewing(self, agent: Agent, obs: Tensor, context: Tensor | None) -> Tensor:
        """The actions [L, E, …] to evaluate at observations [L, E, …] of tasks int32[L, E]: the agent's greedy ones."""
        return agent.greedy(obs, context)

    def tensors(self) -> dict[str, Tensor]:
        """Live tensors that make up the method's state."""
        return {}

    @property
    def nbytes(self) -> int:
        """Bytes that the method stores in addition to the memory: all its tensors."""
        return sum(tensor.nbytes for tensor in self.tensors().values())


def protected_parts(agent: Agent, critics: bool) -> dict[str, Part]:
    """What a method protects: the policy, or the Q network if there is none; the critics, too, if asked for."""
    first, *others = agent.parts
    return {name: agent.parts[name] for name in (first, *(others if critics else ()))}


def read_slots(memory: ReplayMemory, slots: Tensor) -> Batch:
    """The contents of slots int64[L, M]; empty slots read as zeros."""
    parts = memory.arena.unpack(memory.arena.read(slots))
    return Batch(**parts, weight=torch.ones(slots.shape, device=slots.device), index=slots)


def refuse(method: str, when: bool, wanted: str, got: object) -> None:
    """Raise if a method cannot work with what it is attached to."""
    if when:
        raise ValueError(f"method {method}: wanted {wanted}, got {got}")
