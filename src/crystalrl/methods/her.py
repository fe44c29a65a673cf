"""Hindsight experience replay (Andrychowicz et al. 2017): replayed steps pretend that a goal reached later was desired.

A share of every batch gets another goal: one achieved after the step in the same episode (`future`), at the end of the
episode (`final`), or anywhere in it (`episode`). Rewards and endings are recomputed with the environment's
`compute_reward`. Goals are looked up in the memory: a step whose later steps were overwritten keeps its goal.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from crystalrl.agents.base import Agent
from crystalrl.methods.base import Method, Setup, read_slots, refuse
from crystalrl.random import Stream
from crystalrl.types import Batch, GoalSpace, Memory, Observation

STRATEGIES = ("future", "final", "episode")


@dataclass(frozen=True)
class HERParams:
    """Settings of hindsight experience replay; the defaults are those of Andrychowicz et al. 2017."""

    strategy: str = "future"
    """Where other goals come from: future, final or episode."""
    ratio: float = 4.0
    """k: replayed steps with another goal per step with its own."""

    def __post_init__(self) -> None:
        if self.strategy not in STRATEGIES:
            raise ValueError(f"strategy: wanted one of {', '.join(STRATEGIES)}, got {self.strategy!r}")
        if not self.ratio >= 0:
            raise ValueError(f"ratio: wanted a number ≥ 0, got {self.ratio}")


class HER(Method):
    """Invariant: column t mod W of `slot`, `first` and `last` int64[L, E, W] belongs to step t of environment e: its
    slot, and the first and last step of its episode so far. `step` and `env` int64[L, N + 1] are t and e of the
    experience in each slot, −1 in unused ones; the last column is spare.
    """

    def __init__(self, setup: Setup, params: HERParams) -> None:
        memory = setup.memory
        wanted = "a suite that shows goals, such as reach-4-goals, or tasks with dict observations, none redefined"
        refuse("her", setup.goals is None, wanted, "one without goals")
        refuse("her", memory.spec.n_step > 1, "n_step = 1", memory.spec.n_step)
        assert setup.goals is not None
        self.goals, self.memory, self.streams, self.params = setup.goals, memory, setup.streams, params
        self.capturable = setup.goals.capturable
        lanes, envs, device = memory.lanes, memory.spec.envs, memory.device
        self.width = -(-memory.capacity // envs)
        shape = (lanes, envs, self.width)
        self.slot, self.first, self.last = (torch.full(shape, -1, device=device) for _ in range(3))
        self.step, self.env = (torch.full((lanes, memory.capacity + 1), -1, device=device) for _ in range(2))
        self.clock = torch.zeros((), dtype=torch.int64, device=device)
        self.began = torch.zeros(lanes, envs, dtype=torch.int64, device=device)
        """int64[L, E]: first step of the current episodes."""

    def task_start(self, agent: Agent, memory: Memory, task: int) -> None:
        """The environments were reset: new episodes begin."""
        self.began.copy_(self.clock.expand_as(self.began))

    def stored(self, slots: Tensor) -> None:
        """Note where the step is, and extend its episode."""
        at, spare = self.clock % self.width, self.memory.capacity
        written = torch.where(slots < 0, spare, slots)
        self.step.scatter_(1, written, self.clock.expand_as(written))
        self.env.scatter_(1, written, torch.arange(slots.shape[1], device=slots.device).expand_as(slots))
        column = at.expand(*slots.shape, 1)
        self.slot.scatter_(2, column, slots.unsqueeze(-1))
        self.first.scatter_(2, column, self.began.unsqueeze(-1))
        same = self.first == self.began.unsqueeze(-1)
        self.last.copy_(torch.where(same, self.clock, self.last))
        ended = self.memory.arena.endings(self.memory.arena.read(slots.clamp_min(0))) > 0
        self.began.copy_(torch.where(ended, self.clock + 1, self.began))
        self.clock += 1

    def augment(self, batch: Batch) -> Batch:
        """The batch, a share of it with other goals."""
        source, known = self.sources(batch.index)
        uniform = self.streams.uniform(Stream.KEY, batch.index.shape[1])
        chosen = known & (uniform < self.params.ratio / (1 + self.params.ratio))
        later = read_slots(self.memory, source).next_obs
        return relabelled(batch, _part(later, "achieved", self.goals), chosen, self.goals, self.memory.spec.gamma)

    def sources(self, index: Tensor) -> tuple[Tensor, Tensor]:
        """Slots int64[L, B] of steps whose achieved goals replace those of slots `index`, and whether they exist."""
        step, env = self.step.gather(1, index), self.env.gather(1, index)
        first, last = (self._of(table, env, step) for table in (self.first, self.last))
        start = {"future": step, "final": last, "episode": first}[self.params.strategy]
        uniform = self.streams.uniform(Stream.NOISE, index.shape[1])
        wanted = start + (uniform * (last - start + 1)).to(torch.int64)
        slot = self._of(self.slot, env, wanted).clamp_min(0)
        present = (self.step.gather(1, slot) == wanted) & (self.env.gather(1, slot) == env)
        return slot, present & (self.clock - step <= self.width)

    def _of(self, table: Tensor, env: Tensor, step: Tensor) -> Tensor:
        return table.flatten(1).gather(1, env.clamp_min(0) * self.width + step % self.width)

    def tensors(self) -> dict[str, Tensor]:
        own = {"slot": self.slot, "first": self.first, "last": self.last, "step": self.step, "env": self.env}
        return {**own, "clock": self.clock, "began": self.began, "ticks": self.streams.ticks}


def relabelled(batch: Batch, goal: Tensor, chosen: Tensor, goals: GoalSpace, gamma: float) -> Batch:
    """The batch with goals […, G] where `chosen` bool[…]; rewards there are recomputed, and discounts where goals
    end an episode. Observations are flat, or dicts with `achieved_goal` and `desired_goal`."""
    reward, terminated = goals.compute_reward(_part(batch.next_obs, "achieved", goals), goal, batch.context)
    discount = batch.discount if terminated is None else torch.where(chosen, gamma * (~terminated), batch.discount)
    return replace(
        batch,
        obs=_with_goal(batch.obs, goal, chosen, goals),
        next_obs=_with_goal(batch.next_obs, goal, chosen, goals),
        reward=torch.where(chosen, reward, batch.reward),
        discount=discount,
    )


def _part(obs: Observation, which: str, goals: GoalSpace) -> Tensor:
    if isinstance(obs, dict):
        return obs[f"{which}_goal"]
    return obs[..., getattr(goals, which)]


def _with_goal(obs: Observation, goal: Tensor, chosen: Tensor, goals: GoalSpace) -> Observation:
    desired = torch.where(chosen.unsqueeze(-1), goal, _part(obs, "desired", goals))
    if isinstance(obs, dict):
        return {**obs, "desired_goal": desired}
    changed = obs.clone()
    changed[..., goals.desired] = desired
    return changed
