"""Progressive networks (Rusu et al. 2016): a new column for every task, which also reads the columns before it.

The columns are groups of units in one wide network (`columns` of the agent): column k has the units k·w to (k + 1)·w of
every hidden layer. A layer of column k reads the layer below in its own column, and adapters: U·ReLU(α·V·h) of the
columns before it. All of them are trained during task k only; weights that would read another column are 0. The head
of a task reads the column of its task, and the adapter to it. Convolutions belong to the first column.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from crystalrl.agents.base import Agent, Part
from crystalrl.agents.networks import LaneNetwork
from crystalrl.methods.base import Setup, refuse
from crystalrl.methods.frozen import Frozen
from crystalrl.types import Memory


@dataclass(frozen=True)
class PNNParams:
    """Settings of progressive networks. The width of the agent's layers is that of all columns together."""

    critics: bool = True
    """Columns in the critics, too, if the agent has a policy."""


class PNN(Frozen):
    """Invariant: during task k, `trainable` marks what belongs to column k and to heads that read it; weights between
    columns that do not belong to an adapter are 0. `trained` bool[L, T] marks the ids of completed tasks."""

    def __init__(self, setup: Setup, params: PNNParams) -> None:
        super().__init__(setup, params.critics)
        self.columns, self.streams = len(setup.tasks), setup.streams
        first = next(iter(self.protected.values())).network
        refuse("pnn", first.heads == 1 and len(set(setup.tasks)) > 1, "multi_head = true", "one head for all tasks")
        refuse("pnn", first.columns != self.columns, f"columns = {self.columns}, one per task", first.columns)
        refuse("pnn", first.layer_norm, "layer_norm = false, because it would mix columns", "true")
        lanes, device = len(setup.agent.theta), setup.agent.theta.device
        self.trained = torch.zeros(lanes, len(set(setup.tasks)), dtype=torch.bool, device=device)
        with torch.no_grad():
            for part in self.protected.values():
                self._separate(part.network, part.theta.detach())
                if part.target is not None:
                    part.target.copy_(part.theta)
        self._train(0)

    def _separate(self, network: LaneNetwork, theta: Tensor) -> None:
        """Set weights between columns to 0. The others are those of a layer that is as wide as one column."""
        layers = network.split(theta)
        for index, mask in owned(network, range(self.columns)):
            if index > network.first_hidden:
                wider = math.sqrt(len(mask) / max(int(mask[:, -1].sum()), 1))
                layers[index][0].mul_(mask.to(theta.device) * wider)
        for index in heads_of(network):
            kept = column_of(layers[index][0].shape[1], self.columns) == 0
            layers[index][0].mul_(kept[:, None].to(theta.device) * math.sqrt(self.columns))

    def _train(self, task: int) -> None:
        """Train column `task` and the heads that read it; convolutions with the first column."""
        for name, part in self.protected.items():
            network = part.network
            self.trainable[name].zero_()
            masks = network.split(self.trainable[name])
            for index in range(network.first_hidden):
                for mask in masks[index]:
                    mask.fill_(task == 0)
            for index, own in owned(network, range(task, task + 1)):
                masks[index][0].copy_(own.to(part.theta.device).expand_as(masks[index][0]))
                units = column_of(masks[index][1].shape[-1], self.columns).to(part.theta.device) == task
                masks[index][1].copy_(units.expand_as(masks[index][1]))
            for index in heads_of(network)[: len(network.layers) - network.first_head]:
                masks[index][1].fill_(True)

    @torch.no_grad()
    def task_start(self, agent: Agent, memory: Memory, task: int) -> None:
        super().task_start(agent, memory, task)
        refuse("pnn", task >= self.columns, f"at most {self.columns} tasks", task + 1)
        self._train(task)
        for part in self.protected.values() if task else ():
            copies = len(part.theta) // len(self.trained)
            fresh = torch.cat([part.network.initial(self.streams) for _ in range(copies)], dim=1).view_as(part.theta)
            self._renew_heads(part, fresh, task)
            if part.target is not None:
                part.target.copy_(part.theta)

    def _renew_heads(self, part: Part, fresh: Tensor, task: int) -> None:
        """Let heads that were never trained read the column of this task only."""
        free = (~self.trained).repeat_interleave(len(part.theta) // len(self.trained), 0)
        own, new = part.network.split(part.theta.detach()), part.network.split(fresh)
        for index in heads_of(part.network):
            weight, drawn = own[index][0], new[index][0]
            reads = (column_of(weight.shape[1], self.columns) == task).to(weight.device)[:, None]
            started = torch.where(reads, drawn * math.sqrt(self.columns), 0.0)
            each = free.repeat_interleave(weight.shape[2] // free.shape[1], 1)[:, None, :]
            weight.copy_(torch.where(each, started, weight))

    def task_end(self, agent: Agent, memory: Memory, task: int) -> None:
        """Note which head was trained."""
        context = memory.sample(1).context
        assert context is not None
        self.trained.scatter_(1, context.to(torch.int64), True)

    def tensors(self) -> dict[str, Tensor]:
        return super().tensors() | {"trained": self.trained, "ticks": self.streams.ticks}

    @property
    def nbytes(self) -> int:
        """Bytes of the masks and of the columns beyond the first, without the heads."""
        extra = sum(part.theta.nbytes for part in self.protected.values()) * (self.columns - 1) // self.columns
        return super().nbytes + extra


def owned(network: LaneNetwork, columns: range) -> Iterator[tuple[int, Tensor]]:
    """Number and bool[in, out] of every linear layer and adapter: which weights belong to some columns."""
    adapters = len(network.split_shapes) - len(network.adapters)
    for index in [*range(network.first_hidden, len(network.layers)), *range(adapters, len(network.split_shapes))]:
        fan_in, fan_out = network.split_shapes[index]
        source, target = column_of(fan_in, network.columns), column_of(fan_out, network.columns)
        if index == network.first_hidden:
            link = torch.ones(fan_in, fan_out, dtype=torch.bool)
        elif index in heads_of(network):
            link, target = torch.ones(fan_in, fan_out, dtype=torch.bool), source[:, None].expand(-1, fan_out)
        else:
            down = index >= adapters and (index - adapters) % 2 == 0
            link = source[:, None] < target if down else source[:, None] == target
        yield index, link & (target >= columns.start) & (target < columns.stop)


def heads_of(network: LaneNetwork) -> list[int]:
    """Layers whose outputs are those of heads: the heads, and the second half of their adapters."""
    heads = range(network.first_head, len(network.layers))
    end = len(network.split_shapes)
    return [*heads, *(end - 1 - 2 * i for i in reversed(range(len(heads))))]


def column_of(units: int, columns: int) -> Tensor:
    """int64[units]: the column of every unit."""
    return torch.arange(units) * columns // units
