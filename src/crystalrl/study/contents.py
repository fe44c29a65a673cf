"""What memories hold at the end of a stage, for inspection."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from crystalrl.agents.base import Agent
from crystalrl.study.episodes import EpisodeReturns
from crystalrl.study.plan import Group
from crystalrl.types import Batch, Memory

INSPECTED = 512
"""Experiences of a lane."""


@dataclass(frozen=True)
class Contents:
    """Some experiences of some lanes at the end of a stage, after `done` steps: lane → name → [n, …]."""

    stage: int
    done: int
    experiences: Mapping[int, Mapping[str, Any]]


def contents(
    memory: Memory, agent: Agent, group: Group, stage: int, episodes: EpisodeReturns | None = None
) -> Iterator[Contents]:
    """What the memory of the first lane of every cell holds, if its experiences have a state, and the agent's `value`.

    episodes: source of the returns of their episodes, which are added as `episode_return`.
    """
    found = {lane: memory.inspected(lane, INSPECTED) for lane in group.first_lanes}
    held = {lane: dict(experiences) for lane, experiences in found.items() if experiences}
    for lane, experiences in held.items():
        experiences["value"] = _value(memory, agent, lane, experiences)
    if episodes is not None:
        for lane, experiences in held.items():
            experiences["episode_return"] = episodes.of(lane, experiences["number"].cpu().numpy())
    if held:
        yield Contents(stage, group.begins(stage) + group.stage_steps[stage], held)


@torch.no_grad()
def _value(memory: Memory, agent: Agent, lane: int, found: Mapping[str, Any]) -> Tensor:
    """Values [n] that a lane's learner gives experiences: of the best action, or, where there is a policy, the lower of
    both critics for the stored action.
    """
    names = ("obs", "action", "reward", "next_obs", "discount", "context", "index")
    given = {name: found[name] for name in names if found.get(name) is not None}
    given = {name: each.expand(memory.lanes, *each.shape) for name, each in given.items()}  # a network takes all lanes
    q = agent.outputs(Batch(**given, weight=torch.ones_like(given["reward"])))["q"][lane]
    return q.amin(-1) if "policy" in agent.parts else q.amax(-1)
