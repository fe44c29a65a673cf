"""The types that memories, agents and training loops exchange.

Axes: L lanes, E environments per lane, N slots, B batch, D observation, A action.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from os import PathLike
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

ArrayLike = Tensor | NDArray[Any] | np.generic | float | int | bool | list[Any] | tuple[Any, ...]
Observation = Tensor | dict[str, Tensor]


@dataclass(frozen=True, slots=True)
class Transition:
    """One step of each environment: every field [L, E, …] with lanes; [E, …] without; [ … ] for one environment.

    A `terminated` transition has no future value; a `truncated` one still bootstraps. `next_obs` is the observation
    that the step led to; at the end of an episode it is the final observation, not the one after the reset.
    """

    obs: ArrayLike | Mapping[str, ArrayLike]
    action: ArrayLike
    reward: ArrayLike
    next_obs: ArrayLike | Mapping[str, ArrayLike]
    terminated: ArrayLike
    truncated: ArrayLike = False
    context: ArrayLike | None = None


@dataclass(frozen=True, slots=True)
class Anchor:
    """The output that the network should keep for a replayed state: target [L, B, …] and loss coefficient [L, B]."""

    target: Tensor
    coefficient: Tensor


@dataclass(frozen=True, slots=True)
class Batch:
    """A drawn batch: every field [L, B, …], or [B, …] for a memory without lanes."""

    obs: Observation
    action: Tensor
    reward: Tensor
    """Discounted sum of the (n-step) rewards."""
    next_obs: Observation
    discount: Tensor
    """γⁿ·(1 − terminated): the factor of the bootstrapped value."""
    weight: Tensor
    """Weight of each sample in the critic's loss."""
    index: Tensor
    """Slots that the experiences were drawn from."""
    context: Tensor | None = None
    anchor: Mapping[str, Anchor] | None = None
    ticket: Tensor | None = None
    """How often each slot had been rewritten at the draw, int32, on the memory's device. `Memory.update` skips an entry
    whose slot was rewritten or emptied since. None: the memory has no use for TD errors, or `sample` did not draw the
    batch."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """A critic's result for a batch."""

    td_error: Tensor
    """TD errors [L, B]."""
    output: Mapping[str, Tensor] | None = None
    """For anchors: the outputs {name: [L, B, …]}."""
    stake: Tensor | None = None
    """For an anchor named `policy`: how much value the choice of the action decides, |Q(s, a) − Q(s, π(s))| [L, B]. The
    anchor pulls in this unit, since the loss of a policy is a value. None: in units of 1."""


Evaluate = Callable[[Batch], Tensor | Evaluation]


@dataclass(frozen=True)
class GoalSpace:
    """Observations that show a goal: where a flat observation [..., D] holds it, and the rewards for any goal."""

    achieved: slice
    """Part of an observation that shows the goal achieved."""
    desired: slice
    """Part of an observation that shows the goal desired."""
    compute_reward: Callable[[Tensor, Tensor, Tensor | None], tuple[Tensor, Tensor | None]]
    """Goals achieved and desired […, G], task ids int[…] or None → rewards […], and whether they terminate the episode,
    bool[…]; None if only the environment's own step says that."""
    capturable: bool = True
    """Whether rewards can be computed inside a captured CUDA graph."""


class Memory(Protocol):
    """What a training loop or a continual-learning method needs from a memory of any kind."""

    @property
    def lanes(self) -> int:
        """Number of lanes."""

    @property
    def capacity(self) -> int:
        """Number of slots per lane."""

    @property
    def device(self) -> torch.device:
        """Device that stores the experiences."""

    @property
    def due(self) -> bool:
        """Whether it is time to call `consolidate`."""

    @property
    def nbytes(self) -> int:
        """Bytes held, payload and bookkeeping."""

    def __len__(self) -> int: ...
    def add(self, transition: Transition, *, valid: ArrayLike | None = None) -> Tensor: ...
    def reserve(self) -> None:
        """The part of `add` that runs on the host. `add` calls it itself, except while a CUDA graph is recorded: call
        it before each replay of a recorded `add`.
        """

    def sample(self, size: int) -> Batch: ...
    def update(self, drawn: Batch | ArrayLike, td_error: ArrayLike) -> None:
        """Report TD errors of a drawn batch; entries whose slot was rewritten or emptied since the draw are skipped,
        however many batches are outstanding. An integer array of slots stands for what they hold now.
        """

    def consolidate(self, evaluate: Evaluate) -> Any: ...
    def inspected(self, lane: int, most: int) -> dict[str, Any]:
        """At most this many stored experiences of a lane with their states, evenly spaced over the slots: as
        `CrystalMemory.experiences`, and `anchors` by name. Empty for memories whose experiences have no state.
        """

    def end_episode(self, ended: ArrayLike | None = None, episode_return: ArrayLike | None = None) -> Tensor: ...
    def state_dict(self) -> dict[str, Tensor]: ...
    def load_state_dict(self, state: Mapping[str, Tensor]) -> None: ...
    def save(self, path: str | PathLike[str]) -> None: ...
    def load(self, path: str | PathLike[str]) -> None: ...
    def clear(self) -> None: ...
    def check(self) -> None: ...
