"""The training loop, end to end on small runs."""

import pytest
import torch

from crystalrl.study.plan import plan
from crystalrl.study.run import Scored, Trainer, run
from crystalrl.study.spec import RunSpec

SMALL = {"steps": 480, "capacity": 256, "batch": 32, "episodes": 4, "points": 2, "agent_params": {"width": 16}}
DESIGNS = [
    {"memory": "uniform"},
    {"memory": "uniform", "method": "ewc"},
    {"memory": "prioritized"},
    {"memory": "reservoir", "method": "distill"},
    {"memory": "crystal", "preset": "anchored"},
    {"memory": "crystal", "preset": "paper", "params": {"every": 200, "every_episode": False}},
]

CLASSICAL = ("uniform", "prioritized", "reservoir")


def name(design: dict[str, object]) -> str:
    return " ".join(value for value in design.values() if isinstance(value, str))


def scores(**fields: object) -> torch.Tensor:
    (group,) = plan({"row": RunSpec(**fields)})
    return torch.stack([event.score for event in run(group) if isinstance(event, Scored)], dim=1)


@pytest.mark.parametrize("design", DESIGNS, ids=name)
def test_a_lane_among_four_equals_its_seed_alone_bit_for_bit(design: dict[str, object]) -> None:
    fields = {"suite": "nav-2-redefined", **design, **SMALL}
    groups = [plan({"row": RunSpec(seeds=seeds, **fields)})[0] for seeds in ((3, 5, 7, 11), (7,))]
    together, alone = (_final_state(group) for group in groups)
    assert torch.equal(together[2], alone[0])


def _final_state(group) -> torch.Tensor:
    trainer = Trainer(group, torch.device("cpu"))
    for stage in range(3):
        trainer.begin(stage)
        practise(trainer, 60, 10)
        trainer.end(stage)
    return trainer.agent.theta.detach()


def practise(trainer: Trainer, steps: int, idle: int) -> None:
    """Take this many steps, with updates after the first `idle`."""
    for step in range(steps):
        trainer.collect()
        if step > idle:
            trainer.learn()
        if trainer.memory.due:
            trainer.memory.consolidate(trainer.agent.evaluate)


def test_the_same_spec_gives_the_same_scores() -> None:
    fields = {"suite": "nav-2", "memory": "prioritized", "seeds": (0, 1), **SMALL}
    assert torch.equal(scores(**fields), scores(**fields))


LEARNERS = [
    *({"memory": memory, "method": method} for memory in CLASSICAL for method in ("none", "ewc", "distill")),
    {"memory": "crystal", "preset": "anchored"},
    {"memory": "crystal", "preset": "anchored", "method": "ewc"},
    {"memory": "crystal", "preset": "paper", "params": {"every": 200, "every_episode": False}},
    {"memory": "crystal", "preset": "paper_navigation", "params": {"every": 200}},
]


@pytest.mark.parametrize("design", LEARNERS, ids=name)
def test_every_design_learns_one_navigation_task_in_seconds(design: dict[str, object]) -> None:
    R = scores(suite="nav-1", seeds=(0, 1), steps=6000, capacity=2000, batch=64, **design)
    assert R[:, 0].mean() < 0.5
    assert R[:, 1].mean() > 0.9


def test_plain_replay_forgets_earlier_tasks_and_anchored_crystals_do_not() -> None:
    fields = {"suite": "nav-3", "seeds": (0, 1, 2, 3), "steps": 6000, "capacity": 450, "batch": 64}
    plain = scores(memory="uniform", agent_params={"width": 64}, **fields)
    near = {"epsilon": 0.3, "delta_r": 0.3, "raw_distance": True}
    anchored = scores(memory="crystal", preset="anchored", params=near, agent_params={"width": 64}, **fields)
    assert plain[:, 3, :2].mean() < 0.65
    assert anchored[:, 3, :2].mean() > 0.8
    assert min(plain[:, 3, 2].mean(), anchored[:, 3, 2].mean()) > 0.85
