"""The one timer. Alternatives take turns in the same run, so that a busy machine slows all of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median

import torch

Step = Callable[[], object]
Clock = Callable[[], float]


@dataclass(frozen=True)
class Job:
    """What is timed: a step, and how often it is called in each round."""

    step: Step
    calls: int = 1


def clock(device: str = "cpu") -> Clock:
    """Seconds. On CPU the processor time of this process; on CUDA the wall clock once the device has finished."""
    return _finished if device.startswith("cuda") else time.process_time


def _finished() -> float:
    torch.cuda.synchronize()
    return time.perf_counter()


def seconds(step: Step, now: Clock, calls: int = 1) -> float:
    """Mean over consecutive calls."""
    start = now()
    for _ in range(calls):
        step()
    return (now() - start) / calls


def process_and_wall(step: Step) -> tuple[float, float]:
    """Seconds of one call: processor time of this process, and the wall clock."""
    process: list[float] = []
    wall = seconds(lambda: process.append(seconds(step, time.process_time)), time.perf_counter)
    return process[0], wall


def interleaved(
    jobs: Mapping[str, Job], rounds: int, now: Clock = time.process_time, warmup: int = 1
) -> dict[str, list[float]]:
    """Seconds per call of each job in each round. Every round runs all jobs in the same order, so rounds compare."""
    for _ in range(warmup):
        for job in jobs.values():
            seconds(job.step, now, job.calls)
    times: dict[str, list[float]] = {name: [] for name in jobs}
    for _ in range(rounds):
        for name, job in jobs.items():
            times[name].append(seconds(job.step, now, job.calls))
    return times


def medians(times: Mapping[str, list[float]], unit: float = 1.0) -> dict[str, float]:
    """Median over the rounds, in units of `unit` seconds."""
    return {name: median(values) / unit for name, values in times.items()}


def ratio(numerator: list[float], denominator: list[float]) -> float:
    """Median over the rounds of the ratio within a round."""
    return median(a / b for a, b in zip(numerator, denominator, strict=True))


def excess(ours: list[float], base: list[float]) -> float:
    """Median over the rounds of the difference within a round."""
    return median(a - b for a, b in zip(ours, base, strict=True))
