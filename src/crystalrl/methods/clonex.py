"""ClonEx-SAC (Wołczyk et al. 2022): clone the outputs at the end of each task, and explore with old policies.

A task starts with the heads of earlier tasks, one per environment in turn; after half of the time the head with the
best mean reward explores alone ("best return").
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from crystalrl.agents.base import Agent
from crystalrl.methods.base import Setup, read_slots, refuse
from crystalrl.methods.cloning import Cloning, CloningParams
from crystalrl.types import Memory


@dataclass(frozen=True)
class ClonExParams(CloningParams):
    """Settings of ClonEx-SAC. Defaults: those of the authors of RECALL for Continual World."""

    explore: int = 10_000
    """Environment steps at the start of a task that are taken with the heads of earlier tasks; 0: none."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.explore < 0:
            raise ValueError(f"explore: wanted a whole number ≥ 0, got {self.explore}")


class ClonEx(Cloning):
    """Cloning, and exploration with the heads of earlier tasks.

    Invariant: the first `learnt` of `heads` int64[L, T] are the ids of completed tasks; `total` and `steps` [L, T] sum
    the rewards and steps of each head in the current task; `clock` counts its environment steps.
    """

    ids = True

    def __init__(self, setup: Setup, params: ClonExParams) -> None:
        super().__init__(setup, params)
        self.explore = params.explore
        one = setup.agent.network.heads == 1 or not setup.memory.spec.context
        name = type(self).__name__.lower()
        refuse(name, one and params.explore > 0, "explore = 0, because there is one head", params.explore)
        lanes, device, tasks = setup.memory.lanes, setup.agent.theta.device, len(setup.tasks)
        self.heads, self.steps, self.choice = (
            torch.zeros(lanes, width, dtype=torch.int64, device=device)
            for width in (tasks, tasks, setup.memory.spec.envs)
        )
        self.total = torch.zeros(lanes, tasks, device=device)
        self.clock, self.learnt = (torch.zeros((), dtype=torch.int64, device=device) for _ in range(2))

    def task_start(self, agent: Agent, memory: Memory, task: int) -> None:
        for tensor in (self.total, self.steps, self.clock):
            tensor.zero_()

    def task_end(self, agent: Agent, memory: Memory, task: int) -> None:
        super().task_end(agent, memory, task)
        context = self.archive.read(self.archive.filled.expand(memory.lanes, 1) - 1).context
        if context is not None:
            self.heads[:, task] = context[:, 0].to(torch.int64)
        self.learnt += 1

    def act(self, agent: Agent, obs: Tensor, epsilon: Tensor, context: Tensor | None) -> Tensor:
        """At the start of a task the actions of earlier heads, then the agent's own."""
        if context is None or not self.explore:
            return agent.act(obs, epsilon, context)
        turn = torch.arange(obs.shape[1], device=obs.device) % self.learnt.clamp_min(1)
        mean = torch.where(self.steps > 0, self.total / self.steps.clamp_min(1), -torch.inf)
        testing = 2 * self.clock < self.explore
        self.choice.copy_(torch.where(testing, turn, mean.argmax(1, keepdim=True)))
        old = agent.act(obs, torch.zeros_like(epsilon), self.heads.gather(1, self.choice).to(context.dtype))
        new = agent.act(obs, epsilon, context)
        return torch.where((self.clock < self.explore) & (self.learnt > 0), old, new)

    def stored(self, slots: Tensor) -> None:
        """Credit the rewards to the heads that acted."""
        super().stored(slots)
        flat = slots.flatten(2)[..., 0] if slots.dim() == 3 else slots
        reward = torch.where(flat < 0, 0.0, read_slots(self.memory, flat.clamp_min(0)).reward)
        self.total.scatter_add_(1, self.choice, reward)
        self.steps.scatter_add_(1, self.choice, (flat >= 0).to(torch.int64))
        self.clock += flat.shape[1]

    def tensors(self) -> dict[str, Tensor]:
        own = {"heads": self.heads, "steps": self.steps, "choice": self.choice, "total": self.total}
        return super().tensors() | own | {"clock": self.clock, "learnt": self.learnt}
