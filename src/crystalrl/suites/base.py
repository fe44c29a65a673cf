"""What a suite of tasks offers to a run. Everything is a tensor with a leading lane axis."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import torch
from torch import Tensor

from crystalrl.suites.workers import Incident
from crystalrl.types import Transition

Policy = Callable[[Tensor, Tensor | None], Tensor]
"""Observations [L, E, …] and task ids int32[L, E] (None: hidden) → actions int64[L, E], or [L, E, A] in [−1, 1]."""
Shape = tuple[int, ...]


class World(Protocol):
    """E environments per lane. `obs` [L, E, …] is what the agent sees now; it and all state change in place."""

    obs: Tensor

    @property
    def incidents(self) -> list[Incident]:
        """Environments that failed and were replaced; whoever reads the list empties it."""

    @property
    def context(self) -> Tensor | None:
        """Ids int32[L, E] of the tasks, unless they are hidden."""

    def begin(self, stage: Tensor) -> None:
        """Start every environment anew in stage int64[L] of the sequence."""

    def step(self, action: Tensor) -> Transition:
        """Take an action in every environment; finished episodes start anew, which `obs` then shows. The next step may
        overwrite what is returned.
        """


class Suite(Protocol):
    """A sequence of stages. `tasks[k]` is the task id of stage k: an id that comes again is a redefined task."""

    @property
    def tasks(self) -> Sequence[int]: ...
    @property
    def obs(self) -> Shape:
        """Shape of an observation."""

    @property
    def obs_dtype(self) -> torch.dtype: ...
    @property
    def action(self) -> int | Shape:
        """How many discrete actions, or the shape of a box in [−1, 1]."""

    @property
    def context(self) -> bool:
        """Whether transitions carry the task id: it is visible, not hidden."""

    @property
    def capturable(self) -> bool:
        """Whether worlds can step inside a captured CUDA graph."""

    def world(self, envs: int) -> World: ...
    def scorer(self, episodes: int) -> Scorer: ...


class Scorer(Protocol):
    """Plays fixed test episodes, the same ones at every call."""

    @property
    def incidents(self) -> list[Incident]:
        """As a world's."""

    def score(self, policy: Policy, stage: Tensor) -> Tensor:
        """Mean score float64[L, M] of stages int64[L, M]."""


def every_stage(suite: Suite, lanes: int, device: torch.device | str) -> Tensor:
    """int64[L, S]: all stages, for every lane."""
    return torch.arange(len(suite.tasks), device=device).expand(lanes, -1)
