"""Samplers decide which slots are drawn, with which weights, and learn from TD errors.

A sampler reads what a ledger writes; it writes only draw weights, in `update`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Protocol

import torch
from torch import Tensor

from crystalrl.memory.sampling.priority import Annealed, LossGate, PriorityRule
from crystalrl.memory.sampling.strata import BatchStrata
from crystalrl.memory.sampling.sum_tree import SumTree
from crystalrl.random import Stream, Streams


class Draw(NamedTuple):
    """Slots int64[L, B], their weights float32[L, B], and their generations int32[L, B] at the draw, where the sampler
    learns.
    """

    slots: Tensor
    weight: Tensor
    ticket: Tensor | None = None


class Sampler(Protocol):
    """Draws from L lanes × N slots."""

    @property
    def learns(self) -> bool:
        """Whether `update` changes anything; then draws have tickets."""

    @property
    def count(self) -> Tensor:
        """int64[L]: experiences that can be drawn."""

    def draw(self, size: int, time: Tensor) -> Draw:
        """`size` slots of each lane, none of which may be empty; `time` int64[L] counts environment steps."""

    def update(self, slots: Tensor, magnitude: Tensor, ticket: Tensor | None) -> None:
        """Record |TD error| float32[L, B] of slots int64[L, B], except where a slot's generation is not its ticket."""

    def occupied(self, slots: Tensor) -> Tensor:
        """bool[L, B]: whether slots int64[L, B] hold an experience; unknown slots hold none."""


class Counted(Protocol):
    """What a sampler must know about a ledger."""

    @property
    def count(self) -> Tensor:
        """int64[L]: occupied slots."""


class Stratified(Counted, Protocol):
    """What a sampler with strata must know about a ledger."""

    @property
    def filled(self) -> Tensor:
        """float64[L, S]: occupied slots of each stratum."""


@dataclass(frozen=True)
class UniformSampler:
    """Every experience is equally likely, whatever its TD error. The occupied slots must be the first ones."""

    learns: ClassVar[bool] = False
    streams: Streams
    ledger: Counted

    @property
    def count(self) -> Tensor:
        return self.ledger.count

    def draw(self, size: int, time: Tensor) -> Draw:
        slots = self.streams.integers(Stream.DRAW, size, self.count)
        return Draw(slots, slots.new_ones(slots.shape, dtype=torch.float32))

    def update(self, slots: Tensor, magnitude: Tensor, ticket: Tensor | None) -> None:
        pass

    def occupied(self, slots: Tensor) -> Tensor:
        return (slots >= 0) & (slots < self.count[:, None])


@dataclass(frozen=True)
class WeightedSampler:
    """Draws in proportion to the weights of a sum tree, which TD errors change.

    `strata` says how many samples come from each stratum of the tree. Slots must have a positive weight exactly if they
    are occupied.
    """

    learns: ClassVar[bool] = True
    streams: Streams
    ledger: Stratified
    tree: SumTree
    rule: PriorityRule
    """How a TD error becomes a draw weight."""
    strata: BatchStrata
    exponent: Annealed
    """Exponent of the importance weights."""
    gate: LossGate | None = None
    """Factor of the loss weights; None: 1."""

    @property
    def count(self) -> Tensor:
        return self.ledger.count

    def draw(self, size: int, time: Tensor) -> Draw:
        filled = self.ledger.filled
        strata = self.strata.of(size, filled)
        count = self.strata.counts(strata, filled)
        return Draw(*self.tree.sample(self.streams, strata, count, self.exponent.at(time), self.gate))

    def update(self, slots: Tensor, magnitude: Tensor, ticket: Tensor | None) -> None:
        self.tree.learn(slots, magnitude, self.rule, ticket)

    def occupied(self, slots: Tensor) -> Tensor:
        return self.tree.drawable(slots)
