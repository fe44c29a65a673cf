"""Multi-task training: every task is played in every part of a run."""

import pytest
import torch

from tests.methods.runs import scores, trainer


def test_environments_play_all_tasks_in_turn() -> None:
    made = trainer("joint")
    for task, ids in enumerate([[0, 1, 2, 0], [1, 2, 0, 1], [2, 0, 1, 2]]):
        made.begin(task)
        assert made.world.context.tolist() == [ids] * 2


def test_every_lane_plays_its_own_order() -> None:
    made = trainer("joint")
    schedule = torch.tensor([[2, 0, 1], [0, 1, 2]])
    assert made.method.stages(schedule, 0, 4).tolist() == [[2, 0, 1, 2], [0, 1, 2, 0]]


def test_contradicting_tasks_are_refused() -> None:
    with pytest.raises(ValueError, match="method joint: wanted tasks that do not contradict each other"):
        trainer("joint", suite="nav-3-redefined")


@pytest.mark.slow
def test_it_learns_all_tasks() -> None:
    fields = {"suite": "nav-3", "seeds": (0, 1, 2, 3), "steps": 4500, "capacity": 2000, "batch": 64}
    R = scores(method="joint", envs=6, agent_params={"width": 64}, **fields)
    assert R[:, 3].mean() > 0.85
