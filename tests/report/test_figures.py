"""Numbers behind the figures."""

import re
from pathlib import Path

import pytest

from crystalrl.report import figures
from crystalrl.study.analysis import load_results


def test_phases_over_time_are_means_over_the_seeds_at_each_consolidation(folder: Path) -> None:
    results = load_results(folder)
    steps, filled = figures.phase_course(results, results.rows[0])
    assert steps.tolist() == [100, 200]
    assert filled.tolist() == [[6.0, 6.0], [2.0, 2.0], [1.0, 2.0]]


def test_the_figure_of_the_rows_names_them_and_has_the_same_bytes_each_time(folder: Path, tmp_path: Path) -> None:
    results = load_results(folder)
    first, second = (figures.write_figure(results, tmp_path / name).read_bytes() for name in ("a.svg", "b/b.svg"))
    assert first == second
    assert {"anchored", "EWC strength=10.0"} <= set(re.findall(r">([^<>\n]+)</text>", first.decode()))
    with pytest.raises(ValueError, match=r"^figure: wanted a file that ends in .svg, got 'a.pdf'"):
        figures.write_figure(results, tmp_path / "a.pdf")


def test_the_figure_in_the_readme_is_drawn_from_the_published_results(tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    drawn = figures.write_figure(load_results(root / "results/nav-evidence/redefined"), tmp_path / "redefined.svg")
    assert drawn.read_text() == (root / "docs/figures/redefined.svg").read_text()
