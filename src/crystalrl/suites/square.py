"""Walking to a goal in the unit square: names, dynamics, observations and scores of `nav`, `reach` and `drift`.

An action moves the agent by .08 times a vector that the task derives from it, plus noise .01; walls stop it. The reward
is −.02 per step, plus 1 at the goal (radius .1), which ends the episode; an episode has at most 40 steps. The
observation is the position, followed by what the suite shows of the task. The score is the share of test episodes that
reach the goal: a policy that knows the task scores 1, uniformly random actions score about .2.

Everything is a tensor on the training device and changes in place, so a step can be captured in a CUDA graph.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from crystalrl.random import Stream, Streams
from crystalrl.suites.base import Policy, Shape
from crystalrl.suites.workers import Incident
from crystalrl.types import Transition

STRIDE, NOISE, RADIUS, COST, HORIZON = 0.08, 0.01, 0.1, 0.02, 40
MARGIN = 0.1
"""Minimum distance between a goal and the walls."""


@dataclass(frozen=True)
class SquareName:
    """The parts of a name: nav-N or reach-N, followed by -redefined, -hidden, -goals or nothing, or drift-N."""

    family: str
    count: int
    kind: str

    @classmethod
    def parse(cls, name: str) -> SquareName:
        match = re.fullmatch(r"(?:(nav|reach)-([1-9]\d*)(?:-(redefined|hidden|goals))?)|(?:(drift)-([1-9]\d*))", name)
        if match is None:
            wanted = "nav-N, reach-N (each also with -redefined, -hidden or -goals) or drift-N"
            raise ValueError(f"suite: wanted {wanted}, got {name!r}")
        family, count, kind = match[1] or match[4], int(match[2] or match[5]), match[3] or ""
        if kind == "redefined" and count < 2:
            raise ValueError(f"suite: wanted at least two tasks to redefine, got {name!r}")
        return cls(family, count, kind)

    @property
    def tasks(self) -> tuple[int, ...]:
        """Task id of every stage."""
        return (*range(self.count), *((0, 1) if self.kind == "redefined" else ()))


class SquareTasks(Protocol):
    """What the suites define. `stage` [L, E] is the stage of each environment: int64 if stages are separate tasks,
    float64 along a path, where 2.25 is a quarter of the way through stage 2."""

    @property
    def seeds(self) -> Sequence[int]: ...
    @property
    def device(self) -> torch.device: ...
    @property
    def obs(self) -> Shape:
        """Shape of an observation."""

    @property
    def stage_dtype(self) -> torch.dtype: ...

    def goals(self, stage: Tensor) -> Tensor:
        """Positions [L, E, 2] of the goals."""

    def moves(self, stage: Tensor, action: Tensor) -> Tensor:
        """Movements [L, E, 2] that the actions cause, in units of .08."""

    def signs(self, stage: Tensor) -> Tensor:
        """What observations show of the task, [L, E, D − 2]."""

    def ids_of(self, stage: Tensor) -> Tensor | None:
        """Task ids int32[L, E]; None if they are hidden."""


def reward_at(position: Tensor, goal: Tensor) -> tuple[Tensor, Tensor]:
    """Rewards float32[…] at positions […, 2] with goals […, 2], and whether the goal is reached, bool[…]."""
    reached = (position - goal).square().sum(-1) < RADIUS**2
    return reached.to(torch.float32) - COST, reached


class SquareWorld:
    """E environments per lane. Invariant: positions lie in the unit square, ages below the horizon.

    `pace` is the part of a stage by which a step moves every environment along its path.
    """

    def __init__(self, tasks: SquareTasks, envs: int, stream: Stream, pace: float = 0.0) -> None:
        lanes, device = len(tasks.seeds), tasks.device
        self.tasks, self.stream, self.envs, self.pace = tasks, stream, envs, pace
        self.streams = Streams(tasks.seeds, device)
        self.stage = torch.zeros(lanes, envs, dtype=tasks.stage_dtype, device=device)
        self.age = torch.zeros(lanes, envs, dtype=torch.int64, device=device)
        self.position = torch.zeros(lanes, envs, 2, device=device)
        self.obs = torch.zeros(lanes, envs, *tasks.obs, device=device)
        self.incidents: list[Incident] = []

    def reset(self, stage: Tensor) -> None:
        """Start new episodes in stage [L] (all environments of a lane) or [L, E]."""
        self.stage.copy_(stage if stage.dim() == 2 else stage[:, None].expand_as(self.stage))
        self.age.zero_()
        self.position.copy_(self._starts())
        self.obs.copy_(self._look(self.position))

    def step(self, action: Tensor) -> Transition:
        """Take actions int64[L, E] or [L, E, 2]; environments whose episode ended are reset."""
        before = self.obs.clone()
        arrived = self._moved(action)
        reward, reached = reward_at(arrived, self.tasks.goals(self.stage))
        self.age += 1
        if self.pace:
            self.stage += self.pace
        late = (self.age >= HORIZON) & ~reached
        after, ended = self._look(arrived), reached | late
        self.age.mul_(~ended)
        self.position.copy_(torch.where(ended[..., None], self._starts(), arrived))
        self.obs.copy_(self._look(self.position))
        return Transition(before, action, reward, after, reached, late, self.context)

    def start(self, action: Tensor) -> None:
        """Begin a step; here it is taken at once."""
        self._next = self.step(action)

    def finish(self) -> Transition:
        """The transition of the step that `start` began."""
        return self._next

    @property
    def context(self) -> Tensor | None:
        """Task ids int32[L, E]; None if they are hidden."""
        return self.tasks.ids_of(self.stage)

    def _moved(self, action: Tensor) -> Tensor:
        """Positions [L, E, 2] after the actions."""
        move = self.tasks.moves(self.stage, action)
        noise = self.streams.normal(self.stream, 2 * self.envs).to(torch.float32).view_as(self.position)
        return (self.position + STRIDE * move + NOISE * noise).clamp(0, 1)

    def _starts(self) -> Tensor:
        return self.streams.uniform(self.stream, 2 * self.envs).to(torch.float32).view_as(self.position)

    def _look(self, position: Tensor) -> Tensor:
        """Observations [L, E, D] at positions [L, E, 2]: the position in [−2, 2]², then the signs of the task."""
        return torch.cat([4 * position - 2, self.tasks.signs(self.stage)], dim=-1)


class SquareEvaluator:
    """Share of test episodes that reach the goal. Starts and noise are the same at every call.

    A stage is tested where it begins, plus `ahead` stages along the path.
    """

    def __init__(self, tasks: SquareTasks, episodes: int, ahead: int = 0) -> None:
        self.tasks, self.episodes, self.ahead = tasks, episodes, ahead
        self.worlds: dict[int, SquareWorld] = {}
        self.incidents: list[Incident] = []

    def score(self, policy: Policy, stage: Tensor) -> Tensor:
        """Success rate float64[L, M] of stages int64[L, M] under a policy."""
        count = stage.shape[1]
        if count not in self.worlds:
            self.worlds[count] = SquareWorld(self.tasks, count * self.episodes, Stream.EVALUATE)
        world = self.worlds[count]
        world.streams.ticks.zero_()
        world.reset((stage + self.ahead).repeat_interleave(self.episodes, dim=1))
        running = torch.ones_like(world.age, dtype=torch.bool)
        succeeded = torch.zeros_like(running)
        for _ in range(HORIZON):
            reached = torch.as_tensor(world.step(policy(world.obs, world.context)).terminated)
            succeeded |= running & reached
            running &= ~reached
        return succeeded.view(-1, count, self.episodes).double().mean(-1)
