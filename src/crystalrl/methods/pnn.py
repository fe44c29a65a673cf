"""Progressive networks (Rusu et al. 2016): a new column for every task, which also reads the columns before it.

The columns are groups of units in one wide network: column k has the units k·w to (k + 1)·w of every hidden layer. Its
weights read the columns up to k and are trained during task k only; weights that would read a later column are 0. The
head of a task reads the columns that exist when the task is trained. Lateral connections are plain weights, without
adapters. Convolutions belong to the first column.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from crystalrl.agents.base import Agent, Part
from crystalrl.methods.base import Setup, refuse
from crystalrl.methods.frozen import Frozen
from crystalrl.types import Memory


@dataclass(frozen=True)
class PNNParams:
    """Settings of progressive networks. The width of the agent's layers is that of all columns together."""

    critics: bool = True
    """Columns in the critics, too, if the agent has a policy."""


class PNN(Frozen):
    """Invariant: during task k, `trainable` marks the incoming weights of column k and the heads' weights up to it."""

    def __init__(self, setup: Setup, params: PNNParams) -> None:
        super().__init__(setup, params.critics)
        self.columns = len(setup.tasks)
        first = next(iter(self.protected.values())).network
        width = first.layers[-1][0]
        refuse("pnn", first.heads == 1 and len(set(setup.tasks)) > 1, "multi_head = true", "one head for all tasks")
        refuse("pnn", width % self.columns > 0, f"a width that {self.columns} columns divide", width)
        with torch.no_grad():
            for part in self.protected.values():
                for index, mask in self._reads(part, range(self.columns)).items():
                    part.network.split(part.theta.detach())[index][0].mul_(mask)
                    if part.target is not None:
                        part.network.split(part.target)[index][0].mul_(mask)
        self._train(0)

    def _reads(self, part: Part, columns: range) -> dict[int, Tensor]:
        """bool[in, out] of every linear layer: which weights belong to some columns. A head's weights belong to the
        column that they read; at the start, heads read the first column only."""
        network, out = part.network, {}
        for index in range(len(network.filters), len(network.layers)):
            fan_in, fan_out = network.layers[index]
            hidden = index < network.first_head
            source = self._column(fan_in, part) if index > len(network.filters) else torch.zeros(fan_in)
            if hidden:
                target = self._column(fan_out, part)
                inside = (target >= columns.start) & (target < columns.stop)
                out[index] = (source[:, None] <= target) & inside
            else:
                last = 1 if len(columns) > 1 else columns.stop
                out[index] = (source < last)[:, None].expand(fan_in, fan_out)
        return {index: mask.to(part.theta.device) for index, mask in out.items()}

    def _column(self, units: int, part: Part) -> Tensor:
        return torch.arange(units) * self.columns // units

    def _train(self, task: int) -> None:
        """Train column `task` and the heads; convolutions with the first column."""
        for name, part in self.protected.items():
            self.trainable[name].zero_()
            layers = part.network.split(self.trainable[name])
            for index, mask in self._reads(part, range(task, task + 1)).items():
                layers[index][0].copy_(mask.expand_as(layers[index][0]))
                hidden = index < part.network.first_head
                own = self._column(part.network.layers[index][1], part).to(mask.device) == task
                layers[index][1].copy_((own if hidden else torch.ones_like(own)).expand_as(layers[index][1]))
            for index in range(len(part.network.filters)):
                for mask in layers[index]:
                    mask.fill_(task == 0)

    def task_start(self, agent: Agent, memory: Memory, task: int) -> None:
        super().task_start(agent, memory, task)
        refuse("pnn", task >= self.columns, f"at most {self.columns} tasks", task + 1)
        self._train(task)

    @property
    def nbytes(self) -> int:
        """Bytes of the masks and of the columns beyond the first, without the heads."""
        extra = sum(part.theta.nbytes for part in self.protected.values()) * (self.columns - 1) // self.columns
        return super().nbytes + extra
