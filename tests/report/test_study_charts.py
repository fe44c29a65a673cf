"""The numbers in the charts are those of the stored tables."""

from pathlib import Path

import numpy as np
import pytest

from crystalrl import results as stored
from crystalrl.report import study_charts
from crystalrl.study.analysis import load_results
from crystalrl.study.stats import improvement, summarise, welch_interval
from tests.made_up_results import write_redefined


@pytest.fixture
def reported(folder: Path) -> tuple[object, object]:
    """The results, and the scores of the reported seeds."""
    scores = stored.load(folder)["scores"]
    return load_results(folder), scores[scores["seed"] < 1000]


def test_means_and_intervals_are_those_of_the_scores(folder: Path) -> None:
    scores = stored.load(folder)["scores"]
    frame = study_charts.average(load_results(folder)).frame().set_index("row")
    for cell in ("anchored", "EWC strength=10.0"):
        final = scores[(scores["cell"] == cell) & (scores["seed"] < 1000) & (scores["after"] == 2)]
        expected = summarise(final.groupby("seed")["score"].mean().to_numpy().astype(float))
        np.testing.assert_allclose(
            frame.loc[cell, ["value", "low", "high"]].astype(float), [expected.mean, expected.low, expected.high]
        )


def test_every_task_is_shown_after_every_task(folder: Path) -> None:
    scores = stored.load(folder)["scores"]
    frame = study_charts.tasks_over_time(load_results(folder)).frame()
    assert len(frame) == 2 * 2 * 3
    means = scores[scores["seed"] < 1000].groupby(["cell", "task", "after"])["score"].mean()
    for line in frame.itertuples():
        assert line.y == pytest.approx(means[line.row, int(line.panel.split()[1]) - 1, line.x])
        assert line.low <= line.y + 1e-9
        assert line.high >= line.y - 1e-9


def test_the_matrix_holds_the_mean_of_every_cell(folder: Path) -> None:
    results = load_results(folder)
    frame = study_charts.learning_matrix(results).frame()
    for row in results.rows:
        mine = frame[frame["panel"] == row.chosen.name].pivot(index="line", columns="column", values="value")
        np.testing.assert_allclose(mine.to_numpy(float), row.chosen.R.mean(axis=0))


def test_lines_of_seeds_are_left_out_where_there_would_be_too_many(folder: Path) -> None:
    samples = {"a": np.random.default_rng(0).random((50, 2000))}
    parts, note = study_charts.banded(samples, np.arange(2000))
    assert len(parts) == 1 + 30
    assert note == " Single seeds: only the first 30 of 50 can be shown."
    parts, note = study_charts.banded({"a": samples["a"][:, :3]}, np.arange(3))
    assert len(parts) == 51
    assert note == ""


def test_phases_over_time_are_means_over_the_seeds_at_each_consolidation(folder: Path) -> None:
    results = load_results(folder)
    steps, filled = study_charts.phase_course(results, results.rows[0])
    assert steps.tolist() == [100, 200]
    assert filled.tolist() == [[6.0, 6.0], [2.0, 2.0], [1.0, 2.0]]
    frame = study_charts.phases(results).frame()
    assert frame[frame["row"] == "crystal"]["y"].tolist() == [1.0, 2.0]


def test_probabilities_and_differences_are_those_of_the_samples(folder: Path) -> None:
    results = load_results(folder)
    ours, theirs = (row.chosen.metrics["AP"] for row in results.rows)
    pair = study_charts.better(results).frame().set_index(["line", "column"])["value"]
    assert pair["anchored", "EWC strength=10.0"] == float(improvement(ours[:, None], theirs[:, None]).value) == 1
    assert pair["EWC strength=10.0", "anchored"] == 0
    (change,) = study_charts.differences(results).frame().itertuples()
    assert (change.panel, change.row) == ("other methods", "EWC strength=10.0")
    assert (change.low, change.high) == welch_interval(theirs, ours)


def test_sensitivity_follows_the_values_of_a_setting(folder: Path) -> None:
    frame = study_charts.sensitivity(load_results(folder)).frame()
    assert frame["x"].tolist() == [1.0, 10.0]
    np.testing.assert_allclose(frame["y"].astype(float), [0.81, 0.41], atol=1e-6)


def test_forgetting_is_the_drop_since_the_best_score(folder: Path) -> None:
    frame = study_charts.forgetting_by_task(load_results(folder)).frame()
    assert frame["x"].tolist() == [1, 1]  # the last task cannot be forgotten yet
    np.testing.assert_allclose(frame["y"].astype(float), [1 - 0.91, 1 - 0.41], atol=1e-6)


def test_profiles_and_curves_have_a_line_for_every_row(folder: Path) -> None:
    results = load_results(folder)
    profile = study_charts.profiles(results).frame()
    final = results.rows[0].chosen.final
    for line in profile[profile["row"] == "anchored"].itertuples():
        assert line.y == pytest.approx((final > line.x).mean())
    curves = study_charts.learning_curves(results).frame()
    assert curves[(curves["row"] == "anchored") & (curves["seed"] < 0)]["y"].tolist() == [0.5, 0.5]
    course = study_charts.course(results).frame()
    np.testing.assert_allclose(
        course[(course["row"] == "anchored") & (course["seed"] == 2)]["y"].astype(float), [1.0, 0.92], atol=1e-6
    )


def test_a_redefined_task_counts_in_its_latest_definition_and_is_named(tmp_path: Path) -> None:
    results = load_results(write_redefined(tmp_path / "out"))
    course = study_charts.course(results).frame()
    for row in results.rows:
        mine = course[(course["row"] == row.name) & (course["seed"] < 0)]["y"]
        assert mine.iloc[-1] == pytest.approx(row.chosen.metrics["AP"].mean())
        assert mine.iloc[3] == pytest.approx(row.chosen.metrics["before"].mean())
    forgetting = study_charts.forgetting_by_task(results).frame()
    assert forgetting[forgetting["row"] == "VR"]["x"].tolist() == [3, 4, 5]  # the valid stages, from left to right
    assert forgetting[forgetting["row"] == "PER"]["x"].tolist() == [5]  # valid in both orders
    panels = study_charts.tasks_over_time(results).frame().query("row == 'VR'")["panel"]
    assert list(dict.fromkeys(panels))[3:] == ["task 4", "task 5: task 1 redefined", "task 6: task 2 redefined"]
