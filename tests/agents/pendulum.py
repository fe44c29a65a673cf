"""Learning to swing up a pendulum, for agents with box actions."""

from __future__ import annotations

from typing import Any

import torch

from crystalrl.study.plan import plan
from crystalrl.study.run import Curve, run
from crystalrl.study.spec import RunSpec

UNIFORM, CRYSTAL = {"memory": "uniform"}, {"memory": "crystal", "preset": "anchored"}


def best_later_score(design: dict[str, Any]) -> tuple[float, float]:
    """Mean over seeds of the first point of the learning curve, and of the best point of its second half: an
    actor-critic may lose its policy and find it again.
    """
    spec = RunSpec(
        "pendulum", **design, seeds=(0, 1, 2), steps=8_000, capacity=4_000, batch=64, envs=1, warmup=400,
        episodes=10, points=8, epsilon=0.0, explore=0.05,
        agent_params={"width": 64, "depth": 2, "learning_rate": 1e-3},
    )  # fmt: skip
    curve = [event.score for event in run(plan({"row": spec})[0]) if isinstance(event, Curve)]
    return float(torch.stack(curve)[0].mean()), float(torch.stack(curve[4:]).amax(0).mean())
