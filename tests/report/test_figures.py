"""Numbers behind the figures."""

from pathlib import Path

from crystalrl.report import figures
from crystalrl.study.analysis import load_results


def test_phases_over_time_are_means_over_the_seeds_at_each_consolidation(folder: Path) -> None:
    results = load_results(folder)
    steps, filled = figures.phase_course(results, results.rows[0])
    assert steps.tolist() == [100, 200]
    assert filled.tolist() == [[6.0, 6.0], [2.0, 2.0], [1.0, 2.0]]
