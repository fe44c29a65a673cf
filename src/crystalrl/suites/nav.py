"""Navigation in the unit square: per task a goal and a permutation of the five actions.

A step moves the agent by .08 (plus noise .01). The reward is −.02 per step, plus 1 at the goal (radius .1), which ends
the episode; an episode has at most 40 steps. Each lane has its own tasks, drawn from its seed. Three families:

`nav-N`            N tasks; the observation is the position and the task id, one-hot.
`nav-N-redefined`  then tasks 1 and 2 are redefined: same id, same permutation, another goal.
`nav-N-hidden`     no id: every task has three landmarks, and the observation shows where they are.

Everything is a tensor on the training device and changes in place, so a step can be captured in a CUDA graph.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from crystalrl.random import Stream, Streams
from crystalrl.suites.base import Policy
from crystalrl.suites.workers import Incident
from crystalrl.types import Transition

STRIDE, NOISE, RADIUS, COST, HORIZON = 0.08, 0.01, 0.1, 0.02, 40
MOVES = ((0.0, 1.0), (0.0, -1.0), (1.0, 0.0), (-1.0, 0.0), (0.0, 0.0))
LANDMARKS = 3
MARGIN = 0.1
"""Minimum distance between a goal and the walls."""
DRAWS = 2 + len(MOVES) + 2 * LANDMARKS
"""Uniform numbers that define a stage: goal, permutation, landmarks."""


@dataclass(frozen=True)
class NavName:
    """The parts of a name: `nav-N`, `nav-N-redefined` or `nav-N-hidden`."""

    count: int
    kind: str

    @classmethod
    def parse(cls, name: str) -> NavName:
        match = re.fullmatch(r"nav-([1-9]\d*)(?:-(redefined|hidden))?", name)
        if match is None:
            raise ValueError(f"suite: wanted nav-N, nav-N-redefined or nav-N-hidden, got {name!r}")
        if match[2] == "redefined" and int(match[1]) < 2:
            raise ValueError(f"suite: wanted at least two tasks to redefine, got {name!r}")
        return cls(int(match[1]), match[2] or "")

    @property
    def tasks(self) -> tuple[int, ...]:
        """Task id of every stage."""
        return (*range(self.count), *((0, 1) if self.kind == "redefined" else ()))


class Nav:
    """The tasks of L lanes: goal [L, S, 2], permutation [L, S, 5], landmarks [L, S, 3·2], ids int32[S]."""

    capturable = True
    obs_dtype = torch.float32

    def __init__(self, name: str, seeds: Sequence[int], device: torch.device | str = "cpu") -> None:
        self.name, self.seeds, self.device = NavName.parse(name), list(seeds), torch.device(device)
        self.tasks = self.name.tasks
        self.context = self.name.kind != "hidden"
        self.obs = (2 + (self.name.count if self.context else 2 * LANDMARKS),)
        self.action = len(MOVES)
        number = torch.arange(len(self.tasks) * DRAWS, device=self.device).expand(len(self.seeds), -1)
        drawn = Streams(self.seeds, self.device).at(Stream.ENVIRONMENT, number).unflatten(1, (-1, DRAWS))
        self.goal = (MARGIN + (1 - 2 * MARGIN) * drawn[..., :2]).to(torch.float32)
        owner = torch.tensor(self.tasks, device=self.device)  # the stage that defined the permutation of each id
        self.permutation = drawn[:, owner, 2 : 2 + len(MOVES)].argsort(-1)
        self.landmark = drawn[..., 2 + len(MOVES) :].to(torch.float32)
        self.ids = owner.to(torch.int32)
        self.sign = torch.eye(self.name.count, device=self.device)[owner]
        """float32[S, N]: the one-hot id of each stage."""

    def world(self, envs: int) -> NavWorld:
        """Environments for learning."""
        return NavWorld(self, envs, Stream.ENVIRONMENT)

    def evaluator(self, episodes: int) -> NavEvaluator:
        """Test episodes."""
        return NavEvaluator(self, episodes)


class NavWorld:
    """E environments per lane. Invariant: positions lie in the unit square, ages below the horizon."""

    def __init__(self, suite: Nav, envs: int, stream: Stream) -> None:
        lanes, device = len(suite.seeds), suite.device
        self.suite, self.stream, self.envs = suite, stream, envs
        self.streams = Streams(suite.seeds, device)
        self.stage = torch.zeros(lanes, envs, dtype=torch.int64, device=device)
        self.age = torch.zeros(lanes, envs, dtype=torch.int64, device=device)
        self.position = torch.zeros(lanes, envs, 2, device=device)
        self.obs = torch.zeros(lanes, envs, *suite.obs, device=device)
        self.moves = torch.tensor(MOVES, device=device)
        self.incidents: list[Incident] = []

    def reset(self, stage: Tensor) -> None:
        """Start new episodes in stage int64[L] (all environments of a lane) or int64[L, E]."""
        self.stage.copy_(stage if stage.dim() == 2 else stage[:, None].expand_as(self.stage))
        self.age.zero_()
        self.position.copy_(self._starts())
        self.obs.copy_(self._look(self.position))

    def step(self, action: Tensor) -> Transition:
        """Take actions int64[L, E]; environments whose episode ended are reset."""
        before = self.obs.clone()
        arrived = self._moved(action)
        reached = (arrived - self._of_stage(self.suite.goal)).square().sum(-1) < RADIUS**2
        self.age += 1
        late = (self.age >= HORIZON) & ~reached
        after, ended = self._look(arrived), reached | late
        reward = reached.to(torch.float32) - COST
        self.age.mul_(~ended)
        self.position.copy_(torch.where(ended[..., None], self._starts(), arrived))
        self.obs.copy_(self._look(self.position))
        return Transition(before, action, reward, after, reached, late, self.context)

    @property
    def context(self) -> Tensor | None:
        """Task ids int32[L, E]; None if they are hidden."""
        return self.suite.ids[self.stage] if self.suite.context else None

    def _moved(self, action: Tensor) -> Tensor:
        """Positions [L, E, 2] after the actions, which the task permutes."""
        meaning = self._of_stage(self.suite.permutation).gather(-1, action[..., None]).squeeze(-1)
        noise = self.streams.normal(self.stream, 2 * self.envs).to(torch.float32).view_as(self.position)
        return (self.position + STRIDE * self.moves[meaning] + NOISE * noise).clamp(0, 1)

    def _starts(self) -> Tensor:
        return self.streams.uniform(self.stream, 2 * self.envs).to(torch.float32).view_as(self.position)

    def _look(self, position: Tensor) -> Tensor:
        """Observations [L, E, D] at positions [L, E, 2]: the position in [−2, 2]², then id or landmarks."""
        sign = self.suite.sign[self.stage] if self.suite.context else 4 * self._of_stage(self.suite.landmark) - 2
        return torch.cat([4 * position - 2, sign], dim=-1)

    def _of_stage(self, table: Tensor) -> Tensor:
        """Rows [L, E, W] of a table [L, S, W] for the stage of each environment."""
        return table.gather(1, self.stage[..., None].expand(-1, -1, table.shape[-1]))


class NavEvaluator:
    """Share of test episodes that reach the goal. Starts and noise are the same at every call."""

    def __init__(self, suite: Nav, episodes: int) -> None:
        self.suite, self.episodes = suite, episodes
        self.worlds: dict[int, NavWorld] = {}
        self.incidents: list[Incident] = []

    def score(self, policy: Policy, stage: Tensor) -> Tensor:
        """Success rate float64[L, M] of stages int64[L, M] under a policy."""
        count = stage.shape[1]
        if count not in self.worlds:
            self.worlds[count] = NavWorld(self.suite, count * self.episodes, Stream.EVALUATE)
        world = self.worlds[count]
        world.streams.ticks.zero_()
        world.reset(stage.repeat_interleave(self.episodes, dim=1))
        running = torch.ones_like(world.age, dtype=torch.bool)
        succeeded = torch.zeros_like(running)
        for _ in range(HORIZON):
            reached = torch.as_tensor(world.step(policy(world.obs, world.context)).terminated)
            succeeded |= running & reached
            running &= ~reached
        return succeeded.view(-1, count, self.episodes).double().mean(-1)
