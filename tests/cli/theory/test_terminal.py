"""Tables and the plot that the commands print."""

from __future__ import annotations

import numpy as np

from crystalrl.cli.theory.options import Show
from crystalrl.cli.theory.terminal import COLUMNS, ROWS, path_plot, phase_of
from crystalrl.theory import Requirements, Tasks, Thresholds, design, recommend
from tests.cli.theory.command import run


def test_show_prints_the_limit_the_times_and_a_plot() -> None:
    text = run("show", "--preset", "paper", "--interference", "0.1", "--episode", "200")
    for expected in ("Beta(2000, 40)", "0.98039", "14.32 (2,865 steps)", "49.09 (9,818 steps)", "█", "entrance"):
        assert expected in text
    assert "the crystal store is full and admits no more" in text


def test_show_models_the_recommended_memory_overwriting_included() -> None:
    text = run("show", "--slots", "2000")
    for expected in ("law, anchored", "3.567 (713 steps)", "12.04 (2,408 steps)", "never becomes crystal", "settled"):
        assert expected in text


def test_design_of_the_papers_rule_prints_rates_and_their_consequences() -> None:
    needs = Requirements(capacity=10_000, lifetime=100_000, thresholds=Thresholds(tau_C=0.8))
    text = run("design", "--preset", "paper", "--capacity", "10000", "--lifetime", "100000", "--tau-C", "0.8")
    plan = design(needs)
    for expected in (f"{plan.alpha:.4g}", f"{plan.capacity[2]:,}", "200,000 steps", "33% of those formed in 400,000"):
        assert expected in text


def test_design_prints_the_recommended_parameters_and_what_remains_of_each_task() -> None:
    needs = ("--slots", "2000", "--task", "2000", "--tasks", "8", "--crystals", "200", "--melts-within", "500")
    text = run("design", *needs)
    plan = recommend(Tasks(slots=2000, task=2000, tasks=8, crystals=200, melts_within=500))
    assert f"CrystalParams(melt={plan.params.melt:.4g}, time_unit={plan.time_unit})" in text
    for expected in (f"{plan.remaining:,.0f} remain after 8 tasks", "1,000 crystal", "warning", "use 3,200 slots"):
        assert expected in text


def test_the_plot_shows_the_mean_path_in_every_column() -> None:
    show = Show(preset="repaired", sigma=0.0, utility=1.0, horizon=60.0)
    lines = path_plot(show).plain.splitlines()
    assert len(lines) == ROWS + 1
    for column, t in enumerate(np.linspace(0, 60, COLUMNS)):
        drawn = [1 - row / (ROWS - 1) for row in range(ROWS) if lines[row][6 + column] == "█"]
        wanted = 1 - np.exp(-0.05 * t)
        assert drawn
        assert all(abs(level - wanted) <= 0.5 / (ROWS - 1) + 1e-9 for level in drawn)
    assert "░" not in path_plot(show).plain  # no noise, no spread
    assert "░" in path_plot(Show(sigma=0.05, horizon=60.0)).plain


def test_a_threshold_itself_is_glass() -> None:
    assert [phase_of(c, Thresholds()) for c in (0.0, 0.29, 0.3, 0.7, 0.71)] == [
        "liquid", "liquid", "glass", "glass", "crystal"
    ]  # fmt: skip
