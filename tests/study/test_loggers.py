"""Loggers get the right means at the right steps, and a missing package is named."""

import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from crystalrl.study.loggers import SCORES, log_events, open_logger, scalars
from crystalrl.study.plan import Group, plan
from crystalrl.study.run import Consolidated, Curve, Progress, Scored
from crystalrl.study.spec import RunSpec
from tests.study.own_tasks import OWN


@pytest.fixture
def group() -> Group:
    """Four lanes: two cells with two seeds; the tasks in two orders."""
    spec = {"steps": 100, "envs": 4, "seeds": (0, 1), "batch": 16, "capacity": 64}
    (made,) = plan({"a": RunSpec("nav-3", **spec), "b": RunSpec("nav-3", order=1, **spec)})
    return made


def test_an_event_becomes_means_over_the_lanes_of_each_cell(group: Group) -> None:
    curve = Curve(1, 50, torch.tensor([0.0, 1.0, 0.4, 0.6]))
    name = "score on the present task"
    assert scalars(group, curve) == ({f"a/{name}": 0.5, f"b/{name}": 0.5}, 150)
    learnt = torch.zeros(4, 3, dtype=torch.float64)
    for lane, one in enumerate(group.lanes):
        learnt[lane, list(one.stages[:2])] = 0.25 * (lane + 1)
    values, step = scalars(group, Scored(2, learnt))
    assert (values, step) == ({"a/score on the tasks so far": 0.375, "b/score on the tasks so far": 0.875}, 200)
    some = torch.tensor([1.0, np.nan, np.nan, np.nan])
    told = Consolidated(0, 40, {"crystal": some, "liquid": some})
    assert scalars(group, told) == ({"a/crystal": 1.0, "a_details/liquid": 1.0}, 40)
    assert list(SCORES) == ["score on the tasks so far", "score on the present task", "crystal", "melted"]
    assert scalars(group, Scored(0, learnt)) == scalars(group, Progress(0, 4, 300)) == ({}, 0)


def test_the_steps_of_events_follow_the_own_steps_of_tasks() -> None:
    (own,) = plan({"row": RunSpec(OWN, steps=480)})
    score = torch.ones(1, 3, dtype=torch.float64)
    assert [scalars(own, Scored(after, score))[1] for after in (1, 2, 3)] == [480, 720, 1200]
    assert scalars(own, Curve(2, 60, score[:, 0]))[1] == 780


def test_tensorboard_holds_the_numbers_and_the_events_pass_unchanged(group: Group, tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = [(0, Curve(stage, 50, torch.full((4,), 0.25 * stage))) for stage in range(3)]
    assert list(log_events(iter(events), [group], open_logger("tensorboard", tmp_path))) == events
    read = EventAccumulator(str(tmp_path / "tensorboard"))
    read.Reload()
    found = [(one.step, one.value) for one in read.Scalars("b/score on the present task")]
    assert found == [(50, 0.0), (150, 0.25), (250, 0.5)]


def test_weights_and_biases_gets_names_values_and_steps(
    group: Group, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[object] = []
    run = SimpleNamespace(log=told.append, finish=lambda: told.append("finished"))
    stand_in = SimpleNamespace(init=lambda **given: told.append(given) or run)
    monkeypatch.setitem(sys.modules, "wandb", stand_in)
    list(log_events([(0, Curve(1, 50, torch.ones(4)))], [group], open_logger("wandb", tmp_path / "mine")))
    assert told == [
        {"project": "crystalrl", "name": "mine", "dir": str(tmp_path / "mine")},
        {"a/score on the present task": 1.0, "b/score on the present task": 1.0, "environment steps": 150},
        "finished",
    ]


@pytest.mark.parametrize(("name", "package"), [("tensorboard", "torch.utils.tensorboard"), ("wandb", "wandb")])
def test_a_missing_package_or_an_unknown_logger_is_named(
    name: str, package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ValueError, match=rf"^sink: wanted the package for {name}, got none: .*'crystalrl\[{name}\]'"):
        open_logger(name, tmp_path)
    with pytest.raises(ValueError, match=r"^sink: .*did you mean 'wandb'"):
        open_logger("wandbb", tmp_path)


def test_a_redefined_task_counts_in_its_latest_definition() -> None:
    (group,) = plan({"VR": RunSpec("nav-2-redefined", seeds=(0,))})
    score = torch.tensor([[0.1, 0.5, 0.9, 0.0]], dtype=torch.float64)
    values, _ = scalars(group, Scored(3, score))
    assert values == {"VR/score on the tasks so far": (0.5 + 0.9) / 2}
