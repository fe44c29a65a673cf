"""What memories hold at the end of a stage, for inspection."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from crystalrl.study.episodes import EpisodeReturns
from crystalrl.study.plan import Group
from crystalrl.types import Memory

INSPECTED = 512
"""Experiences of a lane."""


@dataclass(frozen=True)
class Contents:
    """Some experiences of some lanes at the end of a stage, after `done` steps: lane → name → [n, …]."""

    stage: int
    done: int
    experiences: Mapping[int, Mapping[str, Any]]


def contents(memory: Memory, group: Group, stage: int, episodes: EpisodeReturns | None = None) -> Iterator[Contents]:
    """What the memory of the first lane of every cell holds, if its experiences have a state.

    episodes: where the returns of their episodes are known from; they are added as `episode_return`.
    """
    found = {lane: memory.inspected(lane, INSPECTED) for lane in group.first_lanes}
    held = {lane: dict(experiences) for lane, experiences in found.items() if experiences}
    if episodes is not None:
        for lane, experiences in held.items():
            experiences["episode_return"] = episodes.of(lane, experiences["number"].cpu().numpy())
    if held:
        yield Contents(stage, group.begins(stage) + group.stage_steps[stage], held)
