"""What a study will cost, from speeds measured here and now: nothing is stored."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from crystalrl.memory.base import ReplayMemory
from crystalrl.study.cuda_graph import BURN_IN
from crystalrl.study.plan import Group
from crystalrl.study.run import Learner
from crystalrl.suites.base import Policy

ITERATIONS = 300
"""Measured of each run, after the first updates."""
LONGEST = 5
"""How many times that, at most, in wait of the second consolidation, where a memory has any."""
FEWEST = 3
"""Iterations that are measured in any case."""
SECONDS = 5.0
"""For learning, and as much for each kind of test: what takes longer is cut short."""


@dataclass(frozen=True)
class Forecast:
    """One lane-batched run: its cells and lanes, environment steps of all lanes, iterations per second, hours."""

    cells: tuple[str, ...]
    lanes: int
    steps: int
    speed: float
    hours: float
    at_least: bool
    """Whether tests were cut short, so that it takes longer."""


class _Enough(Exception):
    """Time is up."""


def forecast(group: Group, device: str, iterations: int = ITERATIONS) -> Forecast:
    """Learn a little of the first task and time its parts: steps with their updates, consolidations, evaluations."""
    learner, spec = Learner(group, torch.device(device)), group.spec
    stages = learner.schedule.shape[1]
    learner.begin(0)
    for _ in range(max(spec.warmup, spec.batch) // spec.envs + 1):
        learner.collect()
    for _ in range(BURN_IN + 2 if device.startswith("cuda") else 1):
        learner.collect()
        learner.learn()
    whole, cut = _tested(learner, learner.score_all)
    point, short = _tested(learner, lambda policy: learner.score_current(0, policy))
    step, consolidation, share = _pace(learner, iterations)
    rounds = stages * (spec.steps // spec.envs)
    pace = step + share * consolidation
    seconds = rounds * pace + (stages + 1) * whole + stages * spec.points * point
    cells = tuple(dict.fromkeys(lane.cell for lane in group.lanes))
    steps = group.steps * len(group.lanes)
    return Forecast(cells, len(group.lanes), steps, 1 / pace, seconds / 3600, cut or short)


def _tested(learner: Learner, score: Callable[[Policy], object]) -> tuple[float, bool]:
    """Seconds of a test, and whether it was cut short."""
    begun = _now(learner)

    def hurried(obs: Tensor, context: Tensor | None) -> Tensor:
        if _now(learner) - begun > SECONDS:
            raise _Enough
        return learner.agent.greedy(obs, context)

    try:
        score(hurried)
    except _Enough:
        return _now(learner) - begun, True
    return _now(learner) - begun, False


def _pace(learner: Learner, iterations: int) -> tuple[float, float, float]:
    """Seconds of a step with its update, seconds of a consolidation, and consolidations per step."""
    memory, spent, consolidations, done = learner.memory, 0.0, 0, 0
    consolidates = type(memory).due is not ReplayMemory.due
    longest = LONGEST * iterations if consolidates else iterations
    begun = last = _now(learner)
    while done < FEWEST or (last - begun < SECONDS and (done < iterations or (consolidations < 2 and done < longest))):
        learner.collect()
        learner.learn()
        done += 1
        if memory.due:
            spent += _consolidated(learner)
            consolidations += 1
        last = _now(learner)
    step = (last - begun - spent) / done
    if consolidates and consolidations < 2:  # too few to tell how often: by its own clock
        spent, consolidations = spent + _consolidated(learner), consolidations + 1
        return step, spent / consolidations, learner.spec.envs / memory.params.interval(memory.capacity)
    return step, spent / max(consolidations, 1), consolidations / done


def _consolidated(learner: Learner) -> float:
    """Seconds of a consolidation."""
    begun = _now(learner)
    learner.memory.consolidate(learner.agent.evaluate)
    return _now(learner) - begun


def _now(learner: Learner) -> float:
    if learner.device.type == "cuda":
        torch.cuda.synchronize(learner.device)
    return time.perf_counter()
