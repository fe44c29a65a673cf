"""What a suite of tasks offers to a run. Everything is a tensor with a leading lane axis."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import torch
from torch import Tensor

from crystalrl.types import Transition

Policy = Callable[[Tensor], Tensor]
"""Observations [L, E, D] → actions int64[L, E]."""


class World(Protocol):
    """E environments per lane. `obs` [L, E, D] is what the agent sees now; it and all state change in place."""

    obs: Tensor

    def begin(self, stage: Tensor) -> None:
        """Start every environment anew in stage int64[L] of the sequence."""

    def step(self, action: Tensor) -> Transition:
        """Take actions int64[L, E]; finished episodes start anew, and `obs` is then their first observation."""


class Suite(Protocol):
    """A sequence of stages. `tasks[k]` is the task id of stage k: an id that comes again is a redefined task."""

    @property
    def tasks(self) -> Sequence[int]: ...
    @property
    def obs(self) -> int: ...
    @property
    def actions(self) -> int: ...
    @property
    def context(self) -> bool:
        """Whether transitions carry the task id."""

    @property
    def capturable(self) -> bool:
        """Whether worlds can step inside a captured CUDA graph."""

    def world(self, envs: int) -> World: ...
    def scorer(self, episodes: int) -> Scorer: ...


class Scorer(Protocol):
    """Plays fixed test episodes, the same ones at every call."""

    def score(self, policy: Policy, stage: Tensor) -> Tensor:
        """Mean score float64[L, M] of stages int64[L, M]."""


def every_stage(suite: Suite, lanes: int, device: torch.device | str) -> Tensor:
    """int64[L, S]: all stages, for every lane."""
    return torch.arange(len(suite.tasks), device=device).expand(lanes, -1)
