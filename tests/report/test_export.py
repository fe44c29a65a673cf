"""Reports in other formats."""

import csv
import io
from pathlib import Path

import pandas as pd

from crystalrl.report.export import charts, export, latex, tables
from crystalrl.report.text import Grid
from crystalrl.study.analysis import load_results


def test_every_chart_and_table_becomes_csv_with_its_data(folder: Path, tmp_path: Path) -> None:
    results = load_results(folder)
    written = export(results, folder, "csv", tmp_path / "csv")
    names = {chart.name for chart in charts(results)}
    assert {path.stem for path in written if not path.stem.startswith("table-")} == names
    for chart in charts(results):
        frame = pd.read_csv(tmp_path / "csv" / f"{chart.name}.csv", keep_default_na=False, na_values=[""])
        assert len(frame) == len(chart.frame())
    lines = list(csv.reader(io.StringIO((tmp_path / "csv" / "table-results.csv").read_text())))
    assert lines[1][1] == ".910 [.900, .920]"
    assert len(written) == len(names) + len(tables(results, folder))


def test_markdown_and_latex_hold_the_same_numbers(folder: Path, tmp_path: Path) -> None:
    results = load_results(folder)
    for form in ("md", "tex"):
        (path,) = export(results, folder, form, tmp_path / f"report.{form}")  # type: ignore[arg-type]
        assert ".910 [.900, .920]" in path.read_text()
        assert ".410 [.400, .420]" in path.read_text()
    assert "@software{crystalrl" in (tmp_path / "report.md").read_text()
    spec = folder / "spec.toml"
    spec.write_text(spec.read_text() + '\n[rows.later]\nsuite = "nav-2"\nseeds = [0, 1, 2]\n')
    for form in ("md", "tex"):
        (path,) = export(load_results(folder), folder, form, tmp_path / f"partial.{form}")
        assert "Rows of this study without results yet: later." in path.read_text()


def test_latex_escapes_its_signs_and_marks_the_best() -> None:
    assert r"$\sigma$ $\le$ 1 & " in latex(Grid(["", ""], [["σ ≤ 1", "1"]]))
    made = latex(Grid(["", "a_b %"], [["R&D $x$", "1"]], frozenset({(0, 1)})))
    assert r"R\&D \$x\$ & \textbf{1} \\" in made
    assert r"a\_b \%" in made
    assert made.startswith("\\begin{tabular}{lr}\n\\toprule")


def test_charts_become_pictures(folder: Path, tmp_path: Path) -> None:
    written = export(load_results(folder), folder, "png", tmp_path / "png")
    assert all(path.read_bytes()[:4] == b"\x89PNG" for path in written)
    assert {path.stem for path in written} >= {"average", "learning-matrix", "tasks-over-time"}
