"""Tables and the plot that the commands print."""

from __future__ import annotations

from crystalrl.theory import Requirements, Thresholds, design
from tests.cli.theory.command import run


def test_show_prints_the_limit_the_times_and_a_plot() -> None:
    code, text = run("show")
    assert code == 0
    for expected in ("Beta(2000, 40)", "0.98039", "14.32 (2,865 steps)", "49.09 (9,818 steps)", "█", "entrance"):
        assert expected in text


def test_design_prints_parameters_and_their_consequences() -> None:
    needs = Requirements(capacity=10_000, lifetime=100_000, thresholds=Thresholds(tau_C=0.8))
    code, text = run("design", "--capacity", "10000", "--lifetime", "100000", "--tau-C", "0.8")
    assert code == 0
    plan = design(needs)
    for expected in (f"{plan.alpha:.4g}", f"{plan.capacity[2]:,}", "200,000 steps", "33% of those formed in 400,000"):
        assert expected in text
