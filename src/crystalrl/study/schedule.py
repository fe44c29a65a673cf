"""When a run makes updates and when it draws a point of its learning curve: functions of the steps so far."""

from __future__ import annotations

import math

from crystalrl.study.plan import Group
from crystalrl.study.spec import RunSpec


def updates_due(spec: RunSpec, stored: int) -> int:
    """Updates that belong to a step of all environments, if a lane has stored `stored` steps in total before them."""
    if stored <= spec.warmup:
        return 0
    if not spec.updates:
        return 1
    return math.floor(stored * spec.updates) - math.floor((stored - spec.envs) * spec.updates)


def curve_step(group: Group, stage: int, done: int) -> int | None:
    """Steps into the stage if a point of the learning curve is due after `done` steps in total, else None."""
    spec = group.spec
    within = done - group.begins(stage)
    every = max(group.stage_steps[stage] // spec.envs // spec.points, 1) * spec.envs
    return within if within % every == 0 and within // every <= spec.points else None
