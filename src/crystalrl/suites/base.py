"""The interface between a suite of tasks and a run. Every tensor has a leading lane axis."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from crystalrl.random import Streams
from crystalrl.suites.workers import Incident
from crystalrl.types import GoalSpace, Transition

Policy = Callable[[Tensor, Tensor | None], Tensor]
"""Observations [L, E, …] and task ids int32[L, E] (None: hidden) → actions int64[L, E], or [L, E, A] in [−1, 1]."""
Shape = tuple[int, ...]


class World(Protocol):
    """E environments per lane. `obs` [L, E, …] is the current observation; it and all state change in place."""

    obs: Tensor

    @property
    def incidents(self) -> list[Incident]:
        """Environments that failed; the reader clears the list. After a fatal incident the lane's transitions are
        finite and have no meaning; other lanes are not affected.
        """

    @property
    def context(self) -> Tensor | None:
        """Task ids int32[L, E]; None if they are hidden."""

    def reset(self, stage: Tensor) -> None:
        """Start a new episode in every environment, in stage int64[L] of the sequence."""

    def step(self, action: Tensor) -> Transition:
        """Take one action in every environment; an environment whose episode ended is reset, and `obs` shows the new
        episode. The next step may overwrite the returned tensors.
        """

    def start(self, action: Tensor) -> None:
        """Begin a step, which may continue while this process does something else; `finish` must follow."""

    def finish(self) -> Transition:
        """The transition of the step that `start` began."""


@runtime_checkable
class Resumable(Protocol):
    """A world that saves and restores its own state."""

    def state_dict(self) -> dict[str, Tensor]: ...
    def load_state_dict(self, state: Mapping[str, Tensor]) -> None: ...


class Suite(Protocol):
    """A sequence of stages. `tasks[k]` is the task id of stage k; a repeated id means that the task is redefined."""

    @property
    def tasks(self) -> Sequence[int]: ...
    @property
    def obs(self) -> Shape:
        """Shape of an observation."""

    @property
    def obs_dtype(self) -> torch.dtype: ...
    @property
    def action(self) -> int | Shape:
        """Number of discrete actions, or the shape of a box in [−1, 1]."""

    @property
    def context(self) -> bool:
        """Whether transitions carry the task id; otherwise it is hidden."""

    @property
    def stack(self) -> int | None:
        """Frames in an observation, along its first axis, each of which the memory stores once; None: there are
        none."""

    @property
    def goal_space(self) -> GoalSpace | None:
        """Where observations show goals, and the rewards for any goal; None if they show none."""

    @property
    def capturable(self) -> bool:
        """Whether worlds can step inside a captured CUDA graph."""

    def world(self, envs: int) -> World: ...
    def evaluator(self, episodes: int) -> Evaluator: ...


class Evaluator(Protocol):
    """Plays fixed test episodes, the same at every call."""

    @property
    def incidents(self) -> list[Incident]:
        """Environments that failed; the reader clears the list."""

    def score(self, policy: Policy, stage: Tensor) -> Tensor:
        """Mean score float64[L, M] of stages int64[L, M]."""


def every_stage(suite: Suite, lanes: int, device: torch.device | str) -> Tensor:
    """int64[L, S]: all stages, for every lane."""
    return torch.arange(len(suite.tasks), device=device).expand(lanes, -1)


def world_state(world: World, plain: bool, between: bool) -> dict[str, Tensor] | None:
    """The state of a world as tensors on CPU; None if it cannot be saved at this step.

    A `Resumable` world saves itself. If `plain` (it can step inside a CUDA graph), its attributes that are tensors are
    its state. Any other world can be saved only `between` two stages, where `reset` restores it.
    """
    if isinstance(world, Resumable):
        return world.state_dict()
    if plain:
        return {name: tensor.detach().to("cpu", copy=True) for name, tensor in _tensors(world).items()}
    return {} if between else None


def load_world(world: World, plain: bool, state: Mapping[str, Tensor]) -> None:
    """Restore what `world_state` saved."""
    if not state:
        return
    if isinstance(world, Resumable):
        world.load_state_dict(state)
    elif plain:
        for name, tensor in _tensors(world).items():
            tensor.copy_(state[name])


def _tensors(world: World) -> dict[str, Tensor]:
    """Live tensors of a world, including those of its random streams."""
    found = {}
    for name, value in vars(world).items():
        if isinstance(value, Tensor):
            found[name] = value
        elif isinstance(value, Streams):
            found[f"{name}.ticks"] = value.ticks
    return found
