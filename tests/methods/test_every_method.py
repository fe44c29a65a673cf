"""Every method: what it is told, what it keeps, and that a killed run goes on as if it had not been killed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

from crystalrl.study.kinds import METHODS
from crystalrl.study.run import Trainer
from tests.experience import assert_same_state
from tests.methods.runs import everything, play, practise, scores, trainer

ALL = [name for name in METHODS if name != "none"]
REFUSED = {("recall", "rainbow"), ("nec", "rainbow"), ("nec", "sac"), ("nec", "td3")}
"""Methods with agents that they refuse; the tests of the methods say why."""
AGENTS = ["dqn", *(pytest.param(agent, marks=pytest.mark.slow) for agent in ("rainbow", "sac", "td3"))]


def half_done(method: str, agent: str, seeds: tuple[int, ...] = (0, 1)) -> Trainer:
    """One task, and the beginning of the next."""
    if (method, agent) in REFUSED:
        pytest.skip(f"{method} refuses {agent}; its own tests say why")
    made = trainer(method, agent, seeds)
    practise(made, 0, steps=8)
    made.begin(1)
    play(made, 6)
    return made


def complete(made: Trainer) -> dict[str, torch.Tensor]:
    """The end of the second task."""
    play(made, 3, idle=0)
    made.end(1)
    made.score_all()
    return everything(made)


@pytest.mark.parametrize("agent", AGENTS)
@pytest.mark.parametrize("method", ALL)
def test_a_killed_run_goes_on_bit_for_bit(method: str, agent: str) -> None:
    one, other = half_done(method, agent), trainer(method, agent)
    other.load(everything(one))
    assert_same_state(complete(other), complete(one))


@pytest.mark.parametrize("agent", AGENTS)
@pytest.mark.parametrize("method", ALL)
def test_a_lane_among_others_is_that_seed_alone(method: str, agent: str) -> None:
    both, alone = half_done(method, agent, (3, 5)), half_done(method, agent, (5,))
    for name, part in alone.agent.parts.items():
        rows = len(part.theta)
        assert torch.equal(both.agent.parts[name].theta[rows:], part.theta)


@pytest.mark.parametrize("method", ALL)
def test_whatever_it_keeps_is_counted(method: str) -> None:
    made = trainer(method)
    kept = [value for value in vars(made.method).values() if isinstance(value, torch.Tensor)]
    for group in (value for value in vars(made.method).values() if isinstance(value, dict)):
        kept += [value for value in group.values() if isinstance(value, torch.Tensor)]
    small = 16 * len(made.group.lanes)  # settings, one number per lane
    assert made.method.nbytes >= sum(tensor.nbytes for tensor in kept if tensor.nbytes > small)


TOLD = {
    "no": {"her", "nec", "der", "derpp", "clear", "mir", "redo"},
    "yes": {"ewc", "l2", "si", "mas", "agem", "distill", "finetune", "joint"},
    "yes, and ids": {"packnet", "pnn", "clonex", "recall"},
}


def test_every_method_says_what_it_is_told() -> None:
    for told, names in TOLD.items():
        assert {name for name in names if METHODS[name].told != told} == set()
    assert {"none", *(name for names in TOLD.values() for name in names)} <= set(METHODS)


THREE_TASKS = {"suite": "nav-3", "seeds": (0, 1, 2, 3), "steps": 4500, "capacity": 450, "batch": 64, "points": 1}
RETAINS = {
    "ewc": ("uniform", {"strength": 1000.0}),
    "si": ("uniform", {"strength": 10.0}),
    "mas": ("uniform", {"strength": 1.0}),
    "l2": ("uniform", {"strength": 0.01}),
    "agem": ("uniform", {"size": 150}),
    "derpp": ("reservoir", {"alpha": 0.01}),
    "clear": ("reservoir", {}),
    "mir": ("reservoir", {}),
    "distill": ("reservoir", {}),
    "recall": ("reservoir", {"policy": 1.0, "size": 150, "explore": 450}),
    "clonex": ("uniform", {"policy": 1.0, "size": 150, "explore": 450}),
}
"""Memory and settings with which a method retains more of the first two tasks than fine-tuning does."""


@pytest.fixture(scope="module")
def forgotten() -> float:
    """The mean score of fine-tuning on the first two of three tasks."""
    R = scores(method="finetune", agent_params={"width": 64, "multi_head": True}, **THREE_TASKS)
    return float(R[:, 3, :2].mean())


@pytest.mark.slow
@pytest.mark.parametrize("method", RETAINS)
def test_it_retains_what_fine_tuning_forgets(method: str, forgotten: float) -> None:
    memory, settings = RETAINS[method]
    agent = {"width": 64, "multi_head": True, "pop_art": method == "recall"}
    R = scores(method=method, memory=memory, method_params=settings, agent_params=agent, **THREE_TASKS)
    assert float(R[:, 3, :2].mean()) > forgotten + 0.1


def test_the_page_of_baselines_says_what_each_is_told() -> None:
    lines = (Path(__file__).parents[2] / "docs" / "baselines.md").read_text().splitlines()
    said = {}
    for line in (line for line in lines if line.startswith("| [`")):
        names, _, boundaries, ids, *_ = (cell.strip() for cell in line.strip("|").split("|"))
        for name in re.findall(r"`(\w+)`", names):
            said[name] = f"{boundaries}, and ids" if ids == "yes" else boundaries
    assert said == {name: METHODS[name].told for name in ALL}
