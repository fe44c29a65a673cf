"""Networks of which only some parameters learn, for methods that give every task parameters of its own."""

from __future__ import annotations

import torch
from torch import Tensor

from crystalrl.agents.base import Agent
from crystalrl.methods.base import Method, Setup, protected_parts, refuse
from crystalrl.types import Memory


class Frozen(Method):
    """Invariant: a parameter whose `trainable` [rows, P] is False keeps its bits.

    The memory holds the current task only, and a task starts without momentum: so a parameter whose gradient is masked
    does not move, and neither does the head of another task.
    """

    boundaries = True
    ids = True
    clears = True

    def __init__(self, setup: Setup, critics: bool) -> None:
        refuse(type(self).__name__, not setup.memory.spec.context, "tasks whose id is known", "hidden ids")
        self.protected = protected_parts(setup.agent, critics)
        self.trainable = {
            name: torch.ones(part.theta.shape, dtype=torch.bool, device=part.theta.device)
            for name, part in self.protected.items()
        }

    def task_start(self, agent: Agent, memory: Memory, task: int) -> None:
        if task:
            self.forget_momentum(agent)

    def forget_momentum(self, agent: Agent) -> None:
        """Reset the optimisers of all parts."""
        for part in agent.parts.values():
            for tensor in part.optimiser.tensors().values():
                tensor.zero_()

    def edit_gradients(self, agent: Agent, gradients: dict[str, Tensor]) -> dict[str, Tensor]:
        """The gradients, 0 where parameters are frozen."""
        return {name: g * self.trainable[name] if name in self.trainable else g for name, g in gradients.items()}

    def tensors(self) -> dict[str, Tensor]:
        return {f"trainable.{name}": mask for name, mask in self.trainable.items()}
