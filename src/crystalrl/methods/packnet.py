"""PackNet (Mallya and Lazebnik 2018): every task owns a share of the weights, and later tasks cannot change them.

When a task ends, the smallest of the weights that it trained are set to 0 and left to the tasks that follow, so that
all tasks get an equal share; the others are retrained and then frozen. Biases are frozen after the first task. A task
is evaluated with the weights that it and earlier tasks own. As in Continual World (Wołczyk et al. 2021), the
policy is packed and critics need not be; heads are not packed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor

from crystalrl.agents.base import Agent
from crystalrl.agents.networks import LaneNetwork
from crystalrl.methods.base import Setup
from crystalrl.methods.frozen import Frozen
from crystalrl.types import Memory

UNSEEN = 255
"""Position of a task that has not been completed: it sees all weights."""


@dataclass(frozen=True)
class PackNetParams:
    """Settings of PackNet."""

    retrain: float = 0.1
    """Updates after pruning, as a share of the task's updates; 0.1: Wołczyk et al. 2021 (100,000 per 10⁶ steps)."""
    critics: bool = False
    """Pack the critics, too, if the agent has a policy; Wołczyk et al. 2021 do not."""

    def __post_init__(self) -> None:
        if not self.retrain >= 0:
            raise ValueError(f"retrain: wanted a number ≥ 0, got {self.retrain}")


class PackNet(Frozen):
    """Invariant: `owner` uint8[rows, P] is the position, in training order, of the task that owns a weight, or of the
    current one if it is free; `position` int64[L, T] that of each task id."""

    def __init__(self, setup: Setup, params: PackNetParams) -> None:
        super().__init__(setup, params.critics)
        self.params, self.batch, self.tasks = params, setup.batch, len(setup.tasks)
        lanes, device = len(setup.agent.theta), setup.agent.theta.device
        self.owner = {name: torch.zeros_like(mask, dtype=torch.uint8) for name, mask in self.trainable.items()}
        self.position = torch.full((lanes, len(set(setup.tasks))), UNSEEN, device=device)
        self.updates = torch.zeros((), dtype=torch.int64, device=device)
        """Updates since the start of the task."""

    def edit_gradients(self, agent: Agent, gradients: dict[str, Tensor]) -> dict[str, Tensor]:
        self.updates += next(iter(agent.parts)) in gradients
        return super().edit_gradients(agent, gradients)

    @torch.no_grad()
    def task_end(self, agent: Agent, memory: Memory, task: int) -> None:
        """Prune, retrain, freeze."""
        context = memory.sample(1).context
        assert context is not None
        self.position.scatter_(1, context.to(torch.int64), task)
        count = round(self.params.retrain * int(self.updates))
        if task < self.tasks - 1:
            for name, part in self.protected.items():
                self._prune(name, part.network, part.theta, task)
            self._release(task)
            self.forget_momentum(agent)
            with torch.enable_grad():
                for _ in range(count):
                    agent.update(memory.sample(self.batch), self)
            self.forget_momentum(agent)
            self._release(task + 1)
        self.updates.zero_()

    def _prune(self, name: str, network: LaneNetwork, theta: Tensor, task: int) -> None:
        """Of the weights that the task owns, keep the largest in each layer; the others are 0 and free."""
        owners = network.split(self.owner[name])
        for index in packed(network):
            weight, owner = network.split(theta.detach())[index][0].flatten(1), owners[index][0].flatten(1)
            own = owner == task
            keep = -(-int(own[0].sum()) // (self.tasks - task))
            largest = torch.where(own, weight.abs(), -1.0).topk(keep, dim=1).indices
            free = own.scatter(1, largest, False)
            weight.masked_fill_(free, 0.0)
            owner.masked_fill_(free, task + 1)

    def _release(self, task: int) -> None:
        """Train the weights that `task` owns, and heads; biases only before the first pruning."""
        for name, part in self.protected.items():
            self.trainable[name].zero_()
            masks, owners = part.network.split(self.trainable[name]), part.network.split(self.owner[name])
            for index in range(len(part.network.layers)):
                if index in packed(part.network):
                    masks[index][0].copy_(owners[index][0] == task)
                else:
                    for mask in masks[index]:
                        mask.fill_(True)

    @contextmanager
    def view(self, agent: Agent, position: int) -> Iterator[None]:
        """The networks as the task at a position sees them."""
        kept = {name: part.theta.detach().clone() for name, part in self.protected.items()}
        with torch.no_grad():
            for name, part in self.protected.items():
                part.theta.mul_(self.owner[name] <= position)
            yield
            for name, part in self.protected.items():
                part.theta.copy_(kept[name])

    def viewing(self, agent: Agent, obs: Tensor, context: Tensor | None) -> Tensor:
        """Each task's actions with its own view."""
        assert context is not None
        position = self.position.gather(1, context.to(torch.int64))
        actions = agent.greedy(obs, context)
        for one in position.unique().tolist():
            with self.view(agent, one):
                own = (position == one).view(*position.shape, *[1] * (actions.dim() - 2))
                actions = torch.where(own, agent.greedy(obs, context), actions)
        return actions

    def tensors(self) -> dict[str, Tensor]:
        own = {f"owner.{name}": owner for name, owner in self.owner.items()}
        return super().tensors() | own | {"position": self.position, "updates": self.updates}


def packed(network: LaneNetwork) -> range:
    """Layers whose weights are packed: all, or all but the heads if there are several."""
    return range(len(network.layers) if network.heads == 1 else network.first_head)
