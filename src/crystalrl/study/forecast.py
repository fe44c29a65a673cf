"""What a study will cost, from speeds measured here and now: nothing is stored."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import torch

from crystalrl.memory.replay import ReplayMemory
from crystalrl.study.capture import BURN_IN
from crystalrl.study.plan import Group
from crystalrl.study.run import Learner

ITERATIONS = 300
"""Measured of each run, after the first updates."""
LONGEST = 5
"""How many times that, at most, in wait of the second consolidation, where a memory has any."""


@dataclass(frozen=True)
class Forecast:
    """One lane-batched run: its cells and lanes, environment steps of all lanes, iterations per second, hours."""

    cells: tuple[str, ...]
    lanes: int
    steps: int
    speed: float
    hours: float


def forecast(group: Group, device: str, iterations: int = ITERATIONS) -> Forecast:
    """Learn a little of the first task and time its parts: steps with their updates, consolidations, evaluations."""
    learner, spec = Learner(group, torch.device(device)), group.spec
    stages = learner.schedule.shape[1]
    learner.begin(0)
    for _ in range(max(spec.warmup, spec.batch) // spec.envs + 1):
        learner.collect()
    for _ in range(BURN_IN + 2):
        learner.collect()
        learner.learn()
    whole, point = _timed(learner, learner.score_all), _timed(learner, lambda: learner.score_current(0))
    step, consolidation, share = _pace(learner, iterations)
    rounds = stages * (spec.steps // spec.envs)
    pace = step + share * consolidation
    seconds = rounds * pace + (stages + 1) * whole + stages * spec.points * point
    cells = tuple(dict.fromkeys(lane.cell for lane in group.lanes))
    return Forecast(cells, len(group.lanes), group.steps * len(group.lanes), 1 / pace, seconds / 3600)


def _pace(learner: Learner, iterations: int) -> tuple[float, float, float]:
    """Seconds of a step with its update, seconds of a consolidation, and consolidations per step."""
    spent, consolidations, done = 0.0, 0, 0
    begun = _now(learner)
    longest = iterations if type(learner.memory).due is ReplayMemory.due else LONGEST * iterations
    while done < iterations or (consolidations < 2 and done < longest):
        learner.collect()
        learner.learn()
        done += 1
        if learner.memory.due:
            spent += _timed(learner, lambda: learner.memory.consolidate(learner.agent.evaluate))
            consolidations += 1
    steps = _now(learner) - begun - spent
    return steps / done, spent / max(consolidations, 1), consolidations / done


def _timed(learner: Learner, work: Callable[[], object]) -> float:
    begun = _now(learner)
    work()
    return _now(learner) - begun


def _now(learner: Learner) -> float:
    if learner.device.type == "cuda":
        torch.cuda.synchronize(learner.device)
    return time.perf_counter()
