"""The parts of a backend, and the data they work on.

Axes: L lanes, N slots, S strata, B draws in a batch, M new experiences in one call.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

UNLABELLED = 255
"""Label of a slot that belongs to no stratum."""
BELOW_ONE = 1 - 2.0**-53
"""x · BELOW_ONE < x for every float64 x > 2⁻¹⁰²²: keeps a rounded remainder inside its node."""


class Weighting(IntEnum):
    """How the draw weights of a stratum are computed; base = (|TD error| + ε)^exponent."""

    BASE = 0
    BASE_ROOT_C = 1
    """base · √c."""
    C = 2
    """c, independent of the error."""


class TreeTensors(NamedTuple):
    """The tensors of a sum tree; N′ is N rounded up to a multiple of the arity, with at least one spare slot.

    weight float32[L, N′]; label uint8[L, N′], or [L, 0] with a single stratum; sums float64[L, S, nodes], level by
    level; generation int32[L, N′]: it increases whenever a slot is rewritten or its experience evicted.
    """

    weight: Tensor
    label: Tensor
    sums: Tensor
    generation: Tensor
    offsets: tuple[int, ...]
    """Offset of each level in `sums`; the parents of the leaves come first."""
    slots: int
    """N, the number of slots."""

    @property
    def arrays(self) -> tuple[NDArray[Any], ...]:
        """weight, label, sums, generation and offsets, as the loops on CPU take them."""
        return (*(tensor.numpy() for tensor in self[:4]), np.array(self.offsets))


class ColumnArrays(NamedTuple):
    """The tensors of `SlotColumns` as NumPy views."""

    floats: NDArray[np.float32]
    bytes: NDArray[np.uint8]
    birth: NDArray[np.int64]
    updated: NDArray[np.int32]
    env: NDArray[Any]
    clock: NDArray[np.int64]
    number: NDArray[np.int64]
    filled: NDArray[np.float64]
    enter: NDArray[np.float32]


@dataclass(frozen=True)
class SlotColumns:
    """The data of a ledger with several strata for each slot, in addition to the tree; `commit` writes them.

    The last axis of a column is N + 1: the last entry is spare, for writes that are skipped.
    """

    floats: Tensor
    """float32[F, L, N + 1]: c, then columns that start at 0."""
    bytes: Tensor
    """uint8[2, L, N + 1]: columns that start at 0."""
    birth: Tensor
    """int64[L, N + 1]: arrival number of the experience in its lane."""
    updated: Tensor
    """int32[L, N + 1]: the clock when the experience was stored; wraps around."""
    env: Tensor
    """[L, N + 1]: environment that the experience came from; may be empty."""
    clock: Tensor
    """int64[L]: environment steps or consolidations so far."""
    number: Tensor
    """int64[L]: experiences stored so far."""
    filled: Tensor
    """float64[L, S]: occupied slots of each stratum."""
    enter: Tensor
    """float32[S − 1, L, 1], ascending thresholds of c: the stratum of a new experience is the number of thresholds
    below its c. Infinite: all belong to the first."""
    n_step: int
    """New experiences of one environment in one call."""

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        columns = (self.floats, self.bytes, self.birth, self.updated, self.env)
        return (*columns, self.clock, self.number, self.filled, self.enter)

    @cached_property
    def arrays(self) -> ColumnArrays:
        """The columns as NumPy views; on CPU only."""
        return ColumnArrays(*(tensor.numpy() for tensor in self.tensors))


class Gate(Protocol):
    """A factor of the weights of drawn slots; see `LossGate`."""

    @property
    def tensors(self) -> tuple[Tensor, Tensor, Tensor]:
        """c float32[L, N or 0], power and floor float64[L, 1]."""

    @property
    def arrays(self) -> tuple[NDArray[Any], ...]:
        """The same as NumPy views, on CPU."""

    def factor(self, slots: Tensor) -> Tensor | float: ...


class Rule(Protocol):
    """How a TD error becomes a draw weight; see `PriorityRule`."""

    epsilon: float
    exponent: Tensor
    max_priority: Tensor
    weighting: tuple[Weighting, ...]
    c: Tensor
    error: Tensor

    @property
    def arrays(self) -> tuple[Any, ...]:
        """c, error, weighting, ε, exponent, max_priority as NumPy views and numbers, on CPU."""

    def base(self, magnitude: Tensor) -> Tensor: ...
    def weight(self, label: Tensor, base: Tensor, slots: Tensor | None = None) -> Tensor: ...


class RandomStreams(Protocol):
    """The source of random numbers for draws; see `crystalrl.random.Streams`."""

    keys: Tensor
    """int64[streams, L]: key of each stream."""
    ticks: Tensor
    """int64[streams]: tick of each stream."""

    def advance(self, stream: int) -> tuple[NDArray[np.uint64], np.uint64]: ...
    def uniform(self, stream: int, size: int) -> Tensor: ...


class TreeOperations(Protocol):
    """The operations of a `SumTree` on its tensors; documented there."""

    def sample(
        self, streams: RandomStreams, stream: int, stratum: Tensor, count: Tensor, beta: Tensor, gate: Gate
    ) -> tuple[Tensor, Tensor, Tensor]: ...
    def draw(self, uniform: Tensor, stratum: Tensor) -> tuple[Tensor, Tensor]: ...
    def learn(self, slots: Tensor, ticket: Tensor, magnitude: Tensor, rule: Rule) -> None: ...
    def set(self, slots: Tensor, weight: Tensor, label: Tensor) -> None: ...
    def commit(self, slots: Tensor, rule: Rule, columns: SlotColumns | None, c: Tensor | None) -> None: ...
    def rebuild(self) -> None: ...


@dataclass(frozen=True)
class TreeKind:
    """A backend's sum trees."""

    operations: Callable[[TreeTensors], TreeOperations]
    arity: int
    """Children of a node."""
    top: int
    """Maximum number of nodes of the highest level, over which a draw takes a running sum."""
    ordered: bool
    """Whether children are always added in the same order, so that a rebuild changes no bit."""


class Writes(Protocol):
    """The operations of a memory on its slots outside the tree."""

    def allocate(self, valid: Tensor, counter: Tensor, slots: int, queue: Tensor | None = None) -> Tensor:
        """Slots int64[L, M] where valid bool[L, M], else −1: the next of a ring of `slots`, or the next entries of
        queue int32[L, N]; counter int64[L] counts the slots allocated so far."""

    def store_rows(self, rows: Tensor, slots: Tensor, out: Tensor) -> None:
        """Write rows int64[L, M, W] to slots int64[L, M] of out int64[L · stride, W]; a negative slot is skipped.

        Unless the backend is on the host, the last row of each lane is spare.
        """

    def magnitude(self, error: Tensor, slots: Tensor, capacity: int, corrupt: Tensor) -> Tensor:
        """|error| float32[L, B]. Errors that are not finite and unknown slots [L, B] raise ValueError on the host, and
        set `corrupt` (bool) elsewhere."""

    def strength(
        self, c: Tensor, flags: Tensor, slots: Tensor, kappa: Tensor, exponent: Tensor, evaluated: int
    ) -> Tensor:
        """κ·c^p float32[L, B] of slots int64[L, B], 0 where the flag is missing; c and flags [L, N], with the same
        stride."""

    def take(self, values: Tensor, slots: Tensor) -> Tensor:
        """The values [L, B, …] of slots int64[L, B]; values [L, N, …]."""


class Entry(Protocol):
    """Allocates and registers new experiences in one call, on the host; see `CpuEntry`."""

    def __call__(self, slots: NDArray[np.int64], time: NDArray[np.int64]) -> None:
        """Write the next slots to `slots` int64[L, M], advance the time int64[L] by M, and register the experiences."""


@dataclass(frozen=True)
class Pairs:
    """Kernels over all pairs of experiences; documented in `numba_pairs`."""

    nearest: Callable[..., tuple[Tensor, Tensor]]
    tally: Callable[..., Tensor]
    votes: Callable[..., Tensor] | None
    """None: torch's own operations."""
