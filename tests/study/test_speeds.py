"""The cost of published benchmarks from stored speeds."""

import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from crystalrl.study.definition import load_study, study_names
from crystalrl.study.plan import plan
from crystalrl.study.spec import RunSpec
from crystalrl.study.speeds import estimated, stored
from crystalrl.suites import benchmarks

SPEC = RunSpec("mw-2", agent="sac", steps=1000, envs=2, updates=1.0, batch=256, episodes=3, points=4, seeds=(0, 1, 2))


def hours(spec: RunSpec) -> float:
    (group,) = plan({"row": spec})
    return estimated(group).hours


def test_the_hours_are_those_of_the_formula_in_the_file() -> None:
    speed = stored()[0]["metaworld"]
    rounds, updates = 2 * 1000 / 2, 2
    training = rounds * (speed.round + 6 * speed.step + updates * (speed.update + 3 * speed.lane))
    every = 3 * (speed.round + speed.step * 3 * 3 * 2)  # three evaluations of both tasks
    curve = 2 * 4 * (speed.round + speed.step * 3 * 3)
    assert hours(SPEC) * 3600 == pytest.approx(training + 200 * (every + curve))


def test_consolidations_are_added_and_more_of_them_take_longer() -> None:
    crystal = replace(SPEC, memory="crystal", params={"every": 100})
    cost = stored()[1]
    each = cost.fixed + cost.each * 3 * SPEC.capacity
    assert (hours(crystal) - hours(SPEC)) * 3600 == pytest.approx(20 * each)
    often = replace(crystal, params={"every": 1000, "every_episode": True})
    assert (hours(often) - hours(SPEC)) * 3600 == pytest.approx(10 * each)  # an episode has 200 steps


def test_suites_that_are_no_published_benchmark_must_be_measured() -> None:
    (group,) = plan({"row": replace(SPEC, suite="nav-2")})
    assert estimated(group) is None


def test_every_benchmark_has_a_speed_and_says_where_it_comes_from() -> None:
    found = {benchmarks.benchmark(name.replace("N", "2")).extra for name in benchmarks.ABOUT}
    assert set(stored()[0]) == found
    assert all(speed.source for speed in stored()[0].values())
    values = tomllib.loads((Path(__file__).parents[2] / "src/crystalrl/study/speeds.toml").read_text())
    assert set(values) == {"suites", "consolidation"}


@pytest.mark.parametrize("name", [name for name in study_names() if name.startswith("ladder/")])
def test_a_ladder_takes_at_most_25_minutes(name: str) -> None:
    groups = [group for table in load_study(name).values() for group in plan(table.rows)]
    assert 0 < sum(estimated(group).hours for group in groups) < 25 / 60


@pytest.mark.parametrize("name", [name for name in study_names() if name.startswith("paper/")])
def test_the_paper_s_protocol_is_that_of_its_text(name: str) -> None:
    for key, table in load_study(name).items():
        for row, spec in table.rows.items():
            assert (spec.batch, len(spec.seeds)) == (256, 50), (key, row)
            assert spec.capacity == 1_000_000 or spec.budget_mb == 380, (key, row)
            assert spec.updates * (1 if spec.agent == "sac" else 4) == 1
            if "AMC" in row:
                assert (spec.memory, spec.preset) == ("crystal", "paper")
