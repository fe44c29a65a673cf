"""The numbers in the charts of a memory are those of the stored tables."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from crystalrl import results as stored
from crystalrl.report import memory_charts
from crystalrl.study.inspection import Inspected, inspect_run
from tests.made_up_results import write_results


@pytest.fixture
def one(ran: Path) -> Inspected:
    return inspect_run(ran)[0][0]


def test_the_distribution_counts_every_experience(ran: Path, one: Inspected) -> None:
    frame = memory_charts.distribution(one).frame()
    memory = stored.load(ran)["memory"].query("cell == 'crystal' and seed == 0").set_index("step")
    totals = frame.groupby(["panel", "column"])["value"].sum()
    for (phase, step), count in totals.items():
        assert count == memory.loc[step, phase]


def test_flows_are_the_sums_of_the_moves_during_each_task(ran: Path, one: Inspected) -> None:
    frame = memory_charts.flows(one).frame().set_index(["panel", "source", "target"])["value"]
    memory = stored.load(ran)["memory"].query("cell == 'crystal' and seed == 0 and step > 0")
    for task in (0, 1):
        mine = memory[memory["task"] == task]
        panel = f"during task {task + 1}"
        assert frame[panel, "liquid", "glass"] == mine["to_glass"].sum()
        assert frame[panel, "glass", "crystal"] == mine["to_crystal"].sum()
        assert frame[panel, "crystal", "evicted"] == mine["crystal_dropped"].sum() + mine["streak_evicted"].sum()
    assert frame["during task 1", "liquid", "glass"] > 0


def test_residents_are_the_crystals_by_the_task_of_their_arrival(ran: Path, one: Inspected) -> None:
    frame = memory_charts.residents(one).frame()
    tables = stored.load(ran)
    held, memory = tables["contents"], tables["memory"].query("cell == 'crystal' and seed == 0")
    for after, step in ((1, 480), (2, 960)):
        crystal = held[(held["step"] == step) & (held["phase"] == 3)]
        count = memory[memory["step"] == step]["crystal"].item()
        for task in (0, 1):
            expected = count * (crystal["arrived"] == task).mean() if len(crystal) else 0.0
            (shown,) = frame[(frame["x"] == after) & (frame["row"] == f"from task {task + 1}")]["y"]
            assert shown == pytest.approx(expected)
    assert frame["y"].sum() > 0
    assert "all experiences are counted" in memory_charts.residents(one).about


def test_ages_are_steps_since_arrival(ran: Path, one: Inspected) -> None:
    frame = memory_charts.crystals_over_time(one).frame()
    held = stored.load(ran)["contents"].query("step == 960 and phase == 3")
    (shown,) = frame[(frame["panel"] == "age in steps") & (frame["x"] == 2)]["y"]
    assert shown == (960 - held["number"]).median()


def test_phases_over_time_are_those_of_the_reports(ran: Path, one: Inspected) -> None:
    frame = memory_charts.phases(one).frame()
    memory = stored.load(ran)["memory"].query("cell == 'crystal' and seed == 0 and step > 0")
    for phase in ("liquid", "glass", "crystal"):
        mine = frame[frame["row"] == phase]
        np.testing.assert_array_equal(mine["x"].astype(int), memory["step"])
        np.testing.assert_array_equal(mine["y"].astype(float), memory[phase])


def test_returns_are_those_of_the_episodes_of_the_crystals(ran: Path, one: Inspected) -> None:
    chart = memory_charts.crystals_over_time(one)
    held = stored.load(ran)["contents"].query("phase == 3")
    shown = chart.frame().query(f"panel == '{memory_charts.RETURN}'").set_index("x")
    for after, step in ((1, 480), (2, 960)):
        known = held[held["step"] == step]["episode_return"].dropna()
        assert (after in shown.index) == bool(len(known))
        if len(known):
            assert shown.loc[after, ["low", "y", "high"]].tolist() == pytest.approx(known.quantile([0.25, 0.5, 0.75]))
    assert len(shown)
    assert "of episodes that had ended" in chart.about
    assert one.contents is not None
    older = {name: column for name, column in one.contents.items() if name != "episode_return"}
    chart = memory_charts.crystals_over_time(replace(one, contents=older))
    assert set(chart.data["panel"]) == {"age in steps", "reward"}
    assert "The returns of episodes were not recorded in these results." in chart.about


def test_the_parts_of_the_utility_add_up_to_it(ran: Path, one: Inspected) -> None:
    frame = memory_charts.utility_parts(one).frame()
    followed = stored.load(ran)["followed"]
    total = frame.groupby("x")["y"].sum()
    last = followed["step"].max()
    assert total[last] == pytest.approx(followed[followed["step"] == last]["utility"].mean(), abs=1e-5)


def test_the_anchor_error_is_the_drift_of_glass_and_crystal_by_task(ran: Path, one: Inspected) -> None:
    frame = memory_charts.anchor_error(one).frame()
    followed = stored.load(ran)["followed"].query("step == 960 and phase > 1")
    for task, mine in followed.groupby("arrived"):
        (shown,) = frame[(frame["row"] == f"from task {task + 1}") & (frame["x"] == 960)]["y"]
        assert shown == pytest.approx(mine["drift"].mean(), rel=1e-5)


def test_turnover_and_contradictions_are_those_of_the_reports(ran: Path, one: Inspected) -> None:
    memory = stored.load(ran)["memory"].query("cell == 'crystal' and seed == 0 and step > 0")
    turned = memory_charts.turnover(one).frame()
    first = memory[memory["task"] == 0]
    (formed,) = turned[(turned["row"] == "formed") & (turned["x"] == 1)]["y"]
    assert formed == pytest.approx(first["to_crystal"].sum() / max(first["crystal"].iloc[-1], 1))
    shown = memory_charts.contradictions(one).frame()
    np.testing.assert_allclose(shown[shown["panel"] == "contradicted"]["y"].astype(float), memory["contradicted"])


def test_means_over_intervals_leave_unknown_values_out() -> None:
    step = np.array([1, 2, 59, 60])
    x, y = memory_charts.binned(step, np.array([1.0, np.nan, 3.0, 5.0]), 60.0)
    assert x.tolist() == [2.0, 60.0]
    assert y.tolist() == [1.0, 4.0]


def test_charts_of_older_results_are_those_that_need_no_single_experiences(tmp_path: Path) -> None:
    (old,), _ = inspect_run(write_results(tmp_path / "out"))
    assert {chart.name for chart in memory_charts.charts(old)} <= {"phases", "flows", "turnover", "contradictions"}
