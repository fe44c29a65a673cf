"""Continual-learning metrics: plain functions of the learning matrix R and of scratch references.

R float64[n, S + 1, S]: for each of n learners, R[:, k, j] is the score on stage j after training on k stages; row 0 is
the untrained agent. `tasks[j]` is the task id of stage j; a repeated id redefines its task, and the earlier stage then
no longer counts. Every function returns one number per learner, float64[n].
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]


def current_stages(tasks: Sequence[int], after: int) -> list[int]:
    """For each task id, the stage that defines it after `after` stages (its first stage, if it was not learnt yet)."""
    latest: dict[int, int] = {}
    for stage, task in enumerate(tasks):
        if task not in latest or stage < after:
            latest[task] = stage
    return [latest[task] for task in sorted(latest)]


def first_pass(tasks: Sequence[int]) -> int:
    """Number of stages before any task is redefined."""
    return next((k for k, task in enumerate(tasks) if task in tasks[:k]), len(tasks))


def average_performance(R: Matrix, tasks: Sequence[int], after: int | None = None) -> Matrix:
    """AP: mean score over all tasks as they are defined after `after` stages (all, if None)."""
    row = len(tasks) if after is None else after
    return _mean(R[:, row, current_stages(tasks, row)])


def course(R: Matrix, tasks: Sequence[int]) -> Matrix:
    """float64[n, S]: mean score on the tasks learnt so far after each stage, each in its definition at that time."""
    means = [R[:, k, current_stages(tasks[:k], k)].mean(axis=1) for k in range(1, len(tasks) + 1)]
    return np.stack(means, axis=1)


def learned(R: Matrix) -> Matrix:
    """float64[n, S]: the score on each stage right after it was learnt."""
    return np.stack([R[:, k + 1, k] for k in range(R.shape[2])], axis=1)


def area(curve: Matrix) -> Matrix:
    """[n]: mean height of the learning curves float64[n, S, points]; points that a shorter stage lacks are NaN."""
    if not curve.shape[2]:
        return np.full(len(curve), np.nan)
    return _mean(np.nanmean(curve, axis=2))


def backward_transfer(R: Matrix, tasks: Sequence[int]) -> Matrix:
    """BT: mean change on earlier, still valid stages since learning them, at the end; negative is forgetting."""
    valid = [k for k in current_stages(tasks, len(tasks)) if k < len(tasks) - 1]
    return _mean(R[:, -1, valid] - learned(R)[:, valid])


def forgetting(R: Matrix, tasks: Sequence[int]) -> Matrix:
    """Mean drop on earlier, still valid stages from the best score since they were learnt to the end."""
    valid = [k for k in current_stages(tasks, len(tasks)) if k < len(tasks) - 1]
    best = np.stack([R[:, k + 1 :, k].max(axis=1) for k in valid], axis=1) if valid else R[:, -1, valid]
    return _mean(best - R[:, -1, valid])


def zero_shot(R: Matrix) -> Matrix:
    """Mean score on a stage just before training on it, over all stages but the first."""
    return _mean(_before(R)[:, 1:])


def transfer_over_random(R: Matrix) -> Matrix:
    """FT, first definition: zero-shot score minus the score of the untrained agent, over all stages but the first."""
    return _mean((_before(R) - R[:, 0])[:, 1:])


def transfer_over_scratch(R: Matrix, scratch: Matrix) -> Matrix:
    """FT, the paper's definition: zero-shot score minus the final score float64[n, S] of learning from scratch.

    It is positive only if not training on a task beats training on it.
    """
    return _mean((_before(R) - scratch)[:, 1:])


def transfer_of_area(curve: Matrix, reference: Matrix, best: float = 1.0) -> Matrix:
    """FT of Continual World (Wołczyk et al. 2021): (area − reference area) / (best − reference area), mean over stages.

    curve and reference float64[n, S, points]: scores during training on a stage, in the sequence and from
    scratch. A stage with a perfect reference is left out: nothing can be gained.
    """
    area, base = curve.mean(-1), reference.mean(-1)
    room = best - base
    gain = np.divide(area - base, room, out=np.full_like(area, np.nan), where=room > 0)
    known = np.isfinite(gain)
    total = np.where(known, gain, 0.0).sum(-1)
    mean: Matrix = np.divide(total, known.sum(-1), out=np.full(len(area), np.nan), where=known.any(-1))
    return mean


def first_task_retention(R: Matrix, tasks: Sequence[int]) -> Matrix:
    """Score on task 1 at the end of the first pass, relative to its score right after learning it."""
    start = R[:, 1, 0]
    share: Matrix = np.divide(R[:, first_pass(tasks), 0], start, out=np.full(len(R), np.nan), where=start > 0)
    return share


def performance_before(R: Matrix, tasks: Sequence[int]) -> Matrix:
    """AP at the end of the first pass, before any task is redefined."""
    return average_performance(R, tasks, first_pass(tasks))


def adaptation(R: Matrix, tasks: Sequence[int]) -> Matrix:
    """Mean score on redefined stages right after learning them; NaN if none is redefined."""
    return _mean(learned(R)[:, first_pass(tasks) :])


def memory_efficiency(performance: Matrix, nbytes: float) -> Matrix:
    """AP per megabyte of memory."""
    return performance / (nbytes / 1e6)


def _before(R: Matrix) -> Matrix:
    """float64[n, S]: the score on each stage just before training on it."""
    return np.stack([R[:, k, k] for k in range(R.shape[2])], axis=1)


def _mean(values: Matrix) -> Matrix:
    """Mean over stages; NaN if there are none."""
    return values.mean(axis=1) if values.shape[1] else np.full(len(values), np.nan)


def measure(R: Matrix, tasks: Sequence[int]) -> dict[str, Matrix]:
    """All metrics that need only R: name → [n]."""
    values = {
        "AP": average_performance(R, tasks),
        "BT": backward_transfer(R, tasks),
        "forgetting": forgetting(R, tasks),
        "learned": learned(R).mean(axis=1),
        "zero-shot": zero_shot(R),
        "FT random": transfer_over_random(R),
        "task-1 retention": first_task_retention(R, tasks),
    }
    if first_pass(tasks) < len(tasks):
        values |= {
            "before": performance_before(R, tasks),
            "adapted": adaptation(R, tasks),
        }
    return values
