"""Cost of a study, from speeds measured on this machine; nothing is stored."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from crystalrl.memory import CrystalMemory
from crystalrl.study.cuda_graph import BURN_IN
from crystalrl.study.plan import Group
from crystalrl.study.run import Trainer
from crystalrl.study.schedule import updates_due
from crystalrl.suites.base import Policy

Clock = Callable[[], float]
"""Returns the time in seconds."""


@dataclass(frozen=True)
class Limits:
    """How long each run is measured."""

    iterations: int = 300
    """Iterations to measure, after the first updates."""
    stretch: int = 5
    """If a memory consolidates: up to this many times the iterations, until the second consolidation."""
    minimum: int = 3
    """Iterations to measure in any case."""
    seconds: float = 5.0
    """Seconds for training, and for each kind of evaluation; longer ones are stopped."""


@dataclass(frozen=True)
class Forecast:
    """Cost of one lane-batched run."""

    cells: tuple[str, ...]
    lanes: int
    steps: int
    """Environment steps, of all lanes together."""
    speed: float
    """Environment steps per second, of all lanes together."""
    hours: float
    at_least: bool
    """Whether an evaluation was stopped, so that the run takes longer than `hours`."""
    source: str = ""
    """Where stored speeds come from; empty: the speed was measured here."""


def forecast(group: Group, device: str, limits: Limits | None = None, clock: Clock | None = None) -> Forecast:
    """Train on a part of the first task and time iterations, consolidations and evaluations."""
    trainer, spec = Trainer(group, torch.device(device)), group.spec
    measure = _Measurement(trainer, limits or Limits(), clock or synchronised(trainer.device))
    _warm_up(trainer)
    whole, whole_stopped = measure.evaluation(trainer.score_all)
    point, point_stopped = measure.evaluation(lambda policy: trainer.score_current(0, policy))
    step, consolidation, share = measure.pace()
    stages = trainer.schedule.shape[1]
    rounds = sum(steps // spec.envs for steps in group.stage_steps)
    pace = step + share * consolidation
    seconds = rounds * pace + (stages + 1) * whole + stages * spec.points * point
    lanes = len(group.lanes)
    return Forecast(
        cells=tuple(dict.fromkeys(lane.cell for lane in group.lanes)),
        lanes=lanes,
        steps=group.steps * lanes,
        speed=1 / pace * spec.envs * lanes,
        hours=seconds / 3600,
        at_least=whole_stopped or point_stopped,
    )


def synchronised(device: torch.device) -> Clock:
    """A clock that first waits for the device."""

    def now() -> float:
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        return time.perf_counter()

    return now


def _warm_up(trainer: Trainer) -> None:
    """Fill the memory, and make the first updates and CUDA graphs."""
    spec = trainer.spec
    trainer.begin(0)
    for _ in range(max(spec.warmup, spec.batch) // spec.envs + 1):
        trainer.collect()
    for _ in range(BURN_IN + 2 if trainer.device.type == "cuda" else 1):
        trainer.collect()
        trainer.learn()


class _Stopped(Exception):
    """The time limit of an evaluation has passed."""


class _Measurement:
    """Times the parts of a run."""

    def __init__(self, trainer: Trainer, limits: Limits, clock: Clock) -> None:
        self.trainer, self.limits, self.now = trainer, limits, clock

    def evaluation(self, score: Callable[[Policy], object]) -> tuple[float, bool]:
        """Seconds of an evaluation, and whether it was stopped."""
        started = self.now()

        def limited(obs: Tensor, context: Tensor | None) -> Tensor:
            if self.now() - started > self.limits.seconds:
                raise _Stopped
            return self.trainer.agent.greedy(obs, context)

        try:
            score(limited)
        except _Stopped:
            return self.now() - started, True
        return self.now() - started, False

    def pace(self) -> tuple[float, float, float]:
        """Seconds per step with its update, seconds per consolidation, and consolidations per step."""
        trainer, memory, limits = self.trainer, self.trainer.memory, self.limits
        spent, consolidations, done = 0.0, 0, 0
        crystal = memory if isinstance(memory, CrystalMemory) else None  # the only memory that consolidates
        longest = limits.iterations * (1 if crystal is None else limits.stretch)
        started = last = self.now()
        while done < limits.minimum or (
            last - started < limits.seconds and (done < limits.iterations or (consolidations < 2 and done < longest))
        ):
            done += 1
            trainer.advance(updates_due(trainer.spec, trainer.spec.warmup + done * trainer.spec.envs))
            if memory.due:
                spent += self.consolidation()
                consolidations += 1
            last = self.now()
        step = (last - started - spent) / done
        if crystal is not None and consolidations < 2:  # too few to estimate the rate: take it from the parameters
            spent, consolidations = spent + self.consolidation(), consolidations + 1
            return step, spent / consolidations, trainer.spec.envs / crystal.params.interval(crystal.capacity)
        return step, spent / max(consolidations, 1), consolidations / done

    def consolidation(self) -> float:
        """Seconds of a consolidation."""
        started = self.now()
        self.trainer.memory.consolidate(self.trainer.agent.evaluate)
        return self.now() - started
