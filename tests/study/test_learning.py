"""Every memory, and every agent for box actions, learns a task within seconds; anchored crystals are not forgotten."""

import pytest
import torch

from crystalrl.study.plan import plan
from crystalrl.study.run import Trainer
from crystalrl.study.spec import RunSpec
from tests.study.test_run import name, practise, scores

CLASSICAL = ("uniform", "prioritized", "reservoir")
LEARNERS = [
    *({"memory": memory} for memory in CLASSICAL),
    {"memory": "crystal", "preset": "anchored"},
    {"memory": "crystal", "preset": "paper", "params": {"every": 200, "every_episode": False}},
    pytest.param({"memory": "crystal", "preset": "paper_navigation", "params": {"every": 200}}, marks=pytest.mark.slow),
]
WITH_METHODS = [
    *({"memory": memory, "method": method} for memory in CLASSICAL for method in ("ewc", "distill")),
    {"memory": "crystal", "preset": "anchored", "method": "ewc"},
]
ONE_TASK = {"suite": "nav-1", "seeds": (0, 1), "capacity": 2000, "batch": 64}


def assert_learns(design: dict[str, object]) -> None:
    R = scores(steps=6000, **ONE_TASK, **design)
    assert R[:, 0].mean() < 0.5
    assert R[:, 1].mean() > 0.9


@pytest.mark.parametrize(
    ("agent", "settings"), [("sac", {"initial_temperature": 0.01}), pytest.param("td3", {}, marks=pytest.mark.slow)]
)
def test_agents_with_box_actions_learn_one_reach_task_in_seconds(agent: str, settings: dict[str, float]) -> None:
    quick = {"width": 64, "depth": 2, "learning_rate": 2e-3, **settings}
    fields = {"suite": "reach-1", "memory": "reservoir", "steps": 6000, "capacity": 2000, "batch": 64, "envs": 4}
    R = scores(agent=agent, seeds=(0, 1), points=1, agent_params=quick, **fields)
    assert R[:, 0].mean() < 0.5
    assert R[:, 1].mean() > 0.9


@pytest.mark.parametrize("design", LEARNERS, ids=name)
def test_every_design_learns_one_navigation_task_in_seconds(design: dict[str, object]) -> None:
    assert_learns(design)


@pytest.mark.slow
@pytest.mark.parametrize("design", WITH_METHODS, ids=name)
def test_every_design_with_a_method_learns_one_navigation_task(design: dict[str, object]) -> None:
    assert_learns(design)


@pytest.mark.parametrize("design", WITH_METHODS, ids=name)
def test_a_method_changes_nothing_in_the_first_task(design: dict[str, object]) -> None:
    """So a design learns its first task with a method as it does without."""
    learnt = []
    for one in (design, {**design, "method": "none"}):
        trainer = Trainer(plan({"row": RunSpec(steps=480, **ONE_TASK, **one)})[0], torch.device("cpu"))
        trainer.begin(0)
        before = trainer.agent.theta.detach().clone()
        practise(trainer, 60, 10)
        assert not torch.equal(trainer.agent.theta, before)
        learnt.append(trainer.agent.theta.detach())
    assert torch.equal(*learnt)


def test_plain_replay_forgets_earlier_tasks_and_anchored_crystals_do_not() -> None:
    fields = {"suite": "nav-3", "seeds": (0, 1, 2, 3), "steps": 4500, "capacity": 450, "batch": 64}
    plain = scores(memory="uniform", agent_params={"width": 64}, **fields)
    near = {"epsilon": 0.3, "delta_r": 0.3, "raw_distance": True}
    anchored = scores(memory="crystal", preset="anchored", params=near, agent_params={"width": 64}, **fields)
    assert plain[:, 3, :2].mean() < 0.65
    assert anchored[:, 3, :2].mean() > 0.8
    assert min(plain[:, 3, 2].mean(), anchored[:, 3, 2].mean()) > 0.85
