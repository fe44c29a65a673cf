"""The loop, end to end on small runs."""

import pytest
import torch

from crystalrl.study.plan import plan
from crystalrl.study.run import Learner, Scored, run
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


def scores(**fields: object) -> torch.Tensor:
    (group,) = plan({"row": RunSpec(**fields)})
    return torch.stack([event.score for event in run(group) if isinstance(event, Scored)], dim=1)


@pytest.mark.parametrize(
    "design", DESIGNS, ids=lambda design: " ".join(v for v in design.values() if isinstance(v, str))
)
def test_a_lane_among_four_equals_its_seed_alone_bit_for_bit(design: dict[str, object]) -> None:
    fields = {"suite": "nav-2-redefined", **design, **SMALL}
    groups = [plan({"row": RunSpec(seeds=seeds, **fields)})[0] for seeds in ((3, 5, 7, 11), (7,))]
    together, alone = (_final_state(group) for group in groups)
    assert torch.equal(together[2], alone[0])


def _final_state(group) -> torch.Tensor:
    learner = Learner(group, torch.device("cpu"))
    for stage in range(3):
        learner.begin(stage)
        for step in range(60):
            learner.collect()
            if step > 10:
                learner.learn()
            if learner.memory.due:
                learner.memory.consolidate(learner.agent.evaluate)
        learner.end(stage)
    return learner.agent.theta.detach()


def test_the_same_spec_gives_the_same_scores() -> None:
    fields = {"suite": "nav-2", "memory": "prioritized", "seeds": (0, 1), **SMALL}
    assert torch.equal(scores(**fields), scores(**fields))


@pytest.mark.parametrize("method", ["none", "ewc", "distill"])
@pytest.mark.parametrize("memory", ["uniform", "prioritized", "reservoir"])
def test_every_design_learns_one_navigation_task_in_seconds(memory: str, method: str) -> None:
    R = scores(suite="nav-1", memory=memory, method=method, seeds=(0, 1), steps=6000, capacity=2000, batch=64)
    assert R[:, 0].mean() < 0.5
    assert R[:, 1].mean() > 0.9
