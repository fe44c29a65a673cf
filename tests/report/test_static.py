"""Charts as files."""

import re
from pathlib import Path

import pytest

from crystalrl.report import static
from crystalrl.report.export import charts
from crystalrl.report.memory_charts import residents
from crystalrl.report.study_charts import average
from crystalrl.report.trajectories import trajectories
from crystalrl.study.analysis import load_results
from crystalrl.study.inspection import inspect_run


def test_a_figure_names_the_rows_and_has_the_same_bytes_each_time(folder: Path, tmp_path: Path) -> None:
    chart = average(load_results(folder))
    first, second = (static.write(chart, tmp_path / name).read_bytes() for name in ("a.svg", "b/b.svg"))
    assert first == second
    assert {"anchored", "EWC strength=10.0"} <= set(re.findall(r">([^<>\n]+)</text>", first.decode()))
    with pytest.raises(ValueError, match=r"^figure: wanted a file that ends in .svg or .png, got 'a.pdf'"):
        static.write(chart, tmp_path / "a.pdf")


def test_every_chart_of_a_study_can_be_drawn(folder: Path) -> None:
    drawn = {chart.name: static.draw(chart) for chart in charts(load_results(folder))}
    assert len(drawn["learning-matrix"].axes) == 2 * 2 + 1 - 1  # two panels, each with its scale
    assert [line.get_ydata()[0] for line in drawn["average"].axes[0].lines[1::2]] == [0, 1]


def test_beginnings_of_tasks_do_not_widen_a_panel(ran: Path) -> None:
    ((inside,), _) = inspect_run(ran)
    chart = trajectories(inside)
    for axis, (_, mine) in zip(static.draw(chart).axes, chart.frame().groupby("panel", sort=False), strict=True):
        low, high = axis.get_xlim()
        margin = 0.1 * (mine["x"].max() - mine["x"].min())
        assert low > mine["x"].min() - margin
        assert high < mine["x"].max() + margin


def test_the_figures_in_the_readme_are_drawn_from_the_published_results(tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    ((inside,), _) = inspect_run(root / "results/look")
    drawn = static.write(residents(inside), tmp_path / "residents.svg")
    assert drawn.read_text() == (root / "docs/figures/residents.svg").read_text()
    drawn = static.write(average(load_results(root / "results/default/redefined")), tmp_path / "redefined.svg")
    assert drawn.read_text() == (root / "docs/figures/redefined.svg").read_text()
