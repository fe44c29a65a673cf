"""Small runs with a method, step by step."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from crystalrl.methods import Setup
from crystalrl.study.plan import plan
from crystalrl.study.run import Scored, Trainer, run
from crystalrl.study.spec import RunSpec

SUITES = {"dqn": "nav-3", "nec": "nav-3", "rainbow": "nav-3", "sac": "reach-3", "td3": "reach-3"}
ALL_AGENTS = ["dqn", "sac", *(pytest.param(agent, marks=pytest.mark.slow) for agent in ("rainbow", "td3"))]
"""For tests of what holds with every agent."""
SETTINGS: dict[str, dict[str, Any]] = {
    "agem": {"size": 24, "batch": 8},
    "clonex": {"size": 24, "batch": 8, "explore": 24},
    "recall": {"size": 24, "batch": 8, "explore": 24},
    "redo": {"every": 3},
    "ewc": {"samples": 16},
    "mas": {"samples": 16},
}
"""Settings of the methods whose defaults are for long runs."""
NEC = {"width": 12, "key": 6, "entries": 20, "neighbours": 5, "n_step": 2}
OTHER_SUITES = {"her": "-goals"}
"""Methods that need another kind of suite."""


def trainer(method: str, agent: str = "dqn", seeds: tuple[int, ...] = (0, 1), **changes: Any) -> Trainer:
    """A run that has not begun: three tasks, a reservoir of 96 slots, 4 environments."""
    fields: dict[str, Any] = {
        "suite": SUITES[agent] + OTHER_SUITES.get(method, ""),
        "agent": agent,
        "memory": "reservoir",
        "method": method,
        "seeds": seeds,
        "steps": 96,
        "capacity": 96,
        "batch": 16,
        "envs": 4,
        "episodes": 1,
        "points": 1,
        "method_params": SETTINGS.get(method, {}),
        "agent_params": {"width": 12, "depth": 2, "multi_head": True},
    }
    if method == "recall":
        fields["agent_params"]["pop_art"] = True
    if method == "pnn":
        fields["agent_params"]["columns"] = 3
    if method == "her":
        fields["agent_params"]["n_step"] = 1
    if method == "nec":
        fields |= {"agent": "nec", "suite": "nav-3", "agent_params": NEC}
    (group,) = plan({"row": RunSpec(**{**fields, **changes})})
    return Trainer(group, torch.device("cpu"))


def play(made: Trainer, steps: int = 24, idle: int = 4) -> None:
    """Some steps of all environments, with an update after each but the first ones."""
    for step in range(steps):
        made.collect()
        if step >= idle:
            made.learn()


def practise(made: Trainer, task: int, steps: int = 24) -> None:
    """A whole task."""
    made.begin(task)
    play(made, steps)
    made.end(task)


def setup_of(made: Trainer) -> Setup:
    """What the method of a run was attached to."""
    return Setup(made.agent, made.memory, made.agent.streams, made.suite.tasks, made.spec.batch, made.suite.goal_space)


def everything(made: Trainer) -> dict[str, torch.Tensor]:
    """The state of a run, by name."""
    state = made.state()
    assert state is not None
    return state


def scores(**fields: Any) -> torch.Tensor:
    """Scores [L, after, on] of a whole run."""
    (group,) = plan({"row": RunSpec(**fields)})
    return torch.stack([event.score for event in run(group) if isinstance(event, Scored)], dim=1)
