"""When updates and points of the learning curve are due."""

import pytest
import torch

from crystalrl.study.plan import plan
from crystalrl.study.run import Trainer, run
from crystalrl.study.schedule import curve_step, updates_due
from crystalrl.study.spec import RunSpec

SMALL = {"capacity": 256, "batch": 32, "episodes": 4, "points": 2, "agent_params": {"width": 16}}


@pytest.mark.parametrize("updates", [0.0, 0.1, 0.25, 1.0, 2.5])
@pytest.mark.parametrize("envs", [1, 3, 8])
def test_the_sum_of_updates_is_the_ratio_times_the_steps_after_the_warm_up(updates: float, envs: int) -> None:
    spec = RunSpec(updates=updates, envs=envs, warmup=30 * envs)
    made = sum(updates_due(spec, stored) for stored in range(envs, 1000 * envs + 1, envs))
    assert abs(made - (updates * 970 * envs if updates else 970)) <= 1
    assert updates_due(spec, 30 * envs) == 0


@pytest.mark.parametrize(("updates", "envs", "made"), [(0.0, 8, 40), (1.0, 8, 320), (0.25, 8, 80), (0.1, 3, 32)])
def test_a_run_makes_as_many_updates(updates: float, envs: int, made: int) -> None:
    steps, warmup = 480 // envs * envs, 160 // envs * envs
    (group,) = plan({"row": RunSpec("nav-1", updates=updates, warmup=warmup, steps=steps, envs=envs, **SMALL)})
    trainer = Trainer(group, torch.device("cpu"))
    list(run(group, trainer=trainer))
    assert abs(int(trainer.agent.optimiser.steps) - made) <= 1


def test_points_of_the_curve_are_evenly_spaced_in_each_stage() -> None:
    (group,) = plan({"row": RunSpec("nav-2", steps=100, envs=4, points=3)})
    for stage in (0, 1):
        begun = group.begins(stage)
        due = [curve_step(group, stage, done) for done in range(begun + 4, begun + 101, 4)]
        assert [step for step in due if step is not None] == [32, 64, 96]
