"""The page of a study: its numbers are those of the store, and what cannot be read is said."""

import json
import re
import shutil
from html import escape, unescape
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from crystalrl import results as stored
from crystalrl.report import text
from crystalrl.report.study_page import side_by_side, source, titles, write_report
from crystalrl.report.terminal import print_results
from crystalrl.study.analysis import load_results
from crystalrl.study.store import TABLES, Store
from crystalrl.study.table_files import packed, write_part
from tests.made_up_results import TABLE, columns, write_results

ROOT = Path(__file__).parents[2]


def written(folder: Path) -> str:
    return write_report([folder], folder / "report.html").read_text()


def charts(page: str) -> dict[str, dict[str, Any]]:
    """The data of every chart in a page, decoded."""
    return {chart["name"]: chart for chart in charts_in(page)}


def charts_in(page: str) -> list[dict[str, Any]]:
    """The name and the data of all charts, in order."""
    (inside,) = re.findall(r'<script type="application/json" class="charts">(.*?)</script>', page, re.DOTALL)
    return [
        {"name": spec["name"], **{name: decoded(raw) for name, raw in spec["data"].items()}}
        for spec in json.loads(inside)
    ]


def decoded(raw: Any) -> list[Any]:
    """A column of a chart in a page."""
    return raw if isinstance(raw, list) else [raw["words"][at] for at in raw["at"]]


def lines(page: str) -> list[list[str]]:
    """The cells of all lines of all tables."""
    rows = re.findall(r"<tr[^>]*>(.*?)</tr>", page)
    return [[unescape(cell) for cell in re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", row)] for row in rows]


def test_the_page_is_complete_escaped_and_loads_no_other_files(folder: Path) -> None:
    page = written(folder)
    assert "<h1>Made &lt;up&gt;</h1>" in page
    for heading in ("Methods compared", "The learning matrix", "Phases and slots used", "Tests", "All values tried"):
        assert heading in page
    links = re.findall(r'(?:src|href)="(?!#|data:)([^"]*)"', page)
    assert all((folder / link).exists() for link in links)
    assert {"spec.toml", "scores.parquet", "memory.parquet"} <= set(links)


def test_every_number_of_a_chart_is_in_the_store(folder: Path) -> None:
    scores, drawn = stored.load(folder)["scores"], charts(written(folder))
    reported = scores[scores["seed"] < 1000]
    matrix = drawn["learning-matrix"]
    means = reported.groupby(["cell", "after", "task"])["score"].mean()
    at = zip(matrix["panel"], matrix["line"], matrix["column"], strict=True)
    np.testing.assert_allclose(matrix["value"], [means[cell, after, task - 1] for cell, after, task in at], rtol=1e-5)
    tasks = drawn["tasks-over-time"]
    at = zip(tasks["row"], tasks["x"], tasks["panel"], strict=True)
    expected = [means[cell, after, int(panel.split()[1]) - 1] for cell, after, panel in at]
    np.testing.assert_allclose(tasks["y"], expected, rtol=1e-5)
    memory = stored.load(folder)["memory"].query("cell == 'anchored' and step > 0")
    by_step = memory.groupby("step")["liquid"].mean()
    phases = drawn["phases"]
    liquid = [(x, y) for row, x, y in zip(phases["row"], phases["x"], phases["y"], strict=True) if row == "liquid"]
    assert liquid == [(step, value) for step, value in by_step.items()]


def test_every_number_of_the_main_table_and_of_the_other_charts_is_computed_from_the_store(folder: Path) -> None:
    """With pandas, from the stored scores alone."""
    tables, page = stored.load(folder), written(folder)
    drawn, shown = charts(page), lines(page)
    scores = tables["scores"].query("seed < 1000").rename(columns={"score": "s"})
    for cell, mine in scores.groupby("cell"):
        if cell not in drawn["average"]["row"]:
            continue
        R = mine.pivot_table(index="seed", columns=["after", "task"], values="s")
        learned = (R[1, 0] + R[2, 1]) / 2
        expected = {
            "AP": (R[2, 0] + R[2, 1]) / 2, "BT": R[2, 0] - R[1, 0], "learned": learned,
            "forgetting": np.maximum(R[1, 0], R[2, 0]) - R[2, 0], "zero-shot": R[1, 1], "FT random": R[1, 1] - R[0, 1],
            "task-1 retention": R[2, 0] / R[1, 0],
        }  # fmt: skip
        place = drawn["average"]["row"].index(cell)
        assert drawn["average"]["value"][place] == pytest.approx(expected["AP"].mean(), rel=1e-5)
        heads = [line for line in shown if line[:1] == [""] and line[-1] == "seeds"]
        for name, values in expected.items():
            (head,) = [line for line in heads if name in line]
            (line,) = [line for line in shown[shown.index(head) :][: 1 + 2] if line[0] == cell]
            number, low, high = map(float, re.findall(r"-?\d*\.\d+", line[head.index(name)]))
            assert number == pytest.approx(values.mean(), abs=6e-4)
            assert values.min() - 6e-4 <= low <= number <= high <= values.max() + 6e-4
        course = series(drawn["course"], cell)
        assert course == pytest.approx({1: R[1, 0].mean(), 2: expected["AP"].mean()}, rel=1e-5)
        for seed in R.index:
            one = series(drawn["course"], cell, seed)
            assert one == pytest.approx({1: R[1, 0][seed], 2: expected["AP"][seed]}, rel=1e-5)
        assert series(drawn["forgetting"], cell) == pytest.approx({1: expected["forgetting"].mean()}, abs=1e-6)
        curve = tables["curves"].query("cell == @cell and seed < 1000").groupby("task")["score"].mean()
        assert series(drawn["learning-curves"], cell) == pytest.approx({1: curve[0], 2: curve[1]}, rel=1e-5)


def series(chart: dict[str, Any], row: str, seed: int = -1) -> dict[float, float]:
    """x → y of a line."""
    at = zip(chart["row"], chart["seed"], chart["x"], chart["y"], strict=True)
    return {x: y for name, number, x, y in at if (name, number) == (row, seed)}


def test_the_tables_of_the_page_are_those_of_the_text(folder: Path) -> None:
    results, shown = load_results(folder), lines(written(folder))
    for grid in (text.main_table(results), text.comparison_table(results), text.tuning_table(results)):
        assert grid.headings in shown
        assert all(line in shown for line in grid.lines)


def test_results_without_the_memory_table_are_reported_without_its_numbers(folder: Path) -> None:
    shutil.rmtree(folder / "memory.parquet")
    page = written(folder)
    assert "phases" not in charts(page)
    assert "phases and bytes are not known" in page
    (performance,) = [line for line in lines(page) if line[:1] == ["anchored"] and len(line) == 7 and "–" in line]
    assert performance[-3:] == ["–", "–", "3"]  # megabytes, AP per megabyte


def test_a_damaged_part_is_named_and_the_rest_is_shown(folder: Path) -> None:
    (part,) = (folder / "memory.parquet").iterdir()
    part.write_bytes(b"damaged")
    page = written(folder)
    assert '<p class="message">' in page
    assert "part-made.parquet: wanted a whole part" in page
    assert charts(page)["average"]["row"] == ["anchored", "EWC strength=10.0"]
    (folder / "scores.parquet" / "notes.txt").write_text("mine")
    assert "notes.txt: wanted nothing but parts" in written(folder)


def test_parts_of_several_versions_are_shown_together(folder: Path) -> None:
    """A run that was stored by a version whose memories reported less."""
    store = Store(folder, (folder / "spec.toml").read_text())
    other = columns(0.5, seed=2000, cell="EWC strength=99.0")
    store.write("older", {**other, "memory": {**other["memory"]}}, "cpu")
    place = folder / "memory.parquet" / "part-older"
    kept = {name: other["memory"][name] for name in TABLES["memory"]}
    write_part(place, packed(kept, TABLES["memory"]))
    page = written(folder)
    assert charts(page)["phases"]["row"]
    assert '<p class="message">' not in page


def test_studies_that_hold_nothing_readable_still_have_a_page(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    (empty / "spec.toml").write_text(TABLE.to_toml())
    assert "wanted results of a study, found none" in written(empty)
    broken = write_results(tmp_path / "broken")
    (next((broken / "scores.parquet").iterdir())).write_bytes(b"")
    assert "wanted a whole part" in written(broken)
    (broken / "spec.toml").write_text("rows = [")
    assert "wanted TOML" in written(broken)


def test_the_setup_is_that_of_all_rows(folder: Path) -> None:
    assert "12,000 steps each. The memory holds 1,000 experiences." in written(folder)
    spec = folder / "spec.toml"
    given = spec.read_text()
    head, _, rest = given.partition("[rows.EWC]")
    other = rest.replace("steps = 12000", "steps = 6000\ncapacity = 500")
    spec.write_text(f"{head}[rows.EWC]{other}")
    said = written(folder)
    assert "6,000 to 12,000 steps each. The memory holds 500 to 1,000 experiences." in said


def test_rows_and_seeds_that_are_missing_are_named(folder: Path) -> None:
    assert "without results yet" not in written(folder)
    spec = folder / "spec.toml"
    more = spec.read_text().replace("seeds = [0, 1, 2]", "seeds = [0, 1, 2, 3]", 1)
    spec.write_text(more + '\n[rows.later]\nsuite = "nav-2"\nseeds = [0, 1, 2]\n')
    page, console = written(folder), Console(width=200, record=True, file=StringIO())
    assert set(charts(page)["average"]["row"]) == {"anchored", "EWC strength=10.0"}
    print_results(load_results(folder), console)
    for said in (page, console.export_text()):
        assert "Rows of this study without results yet: later." in said
        assert "Rows with fewer seeds than the study names: anchored 3 of 4." in said


def test_the_numbers_of_a_paper_are_shown_next_to_ours(folder: Path) -> None:
    assert "The paper’s numbers and ours" not in written(folder)
    spec = folder / "spec.toml"
    spec.write_text(spec.read_text().replace("[rows.anchored]", "[paper.anchored]\nAP = 0.5\n\n[rows.anchored]"))
    page = written(folder)
    assert "The paper’s numbers and ours" in page
    assert ["anchored", "AP", ".910 [.900, .920]", ".500", "+0.410"] in lines(page)


def test_several_studies_are_side_by_side(folder: Path, tmp_path: Path) -> None:
    other = write_results(tmp_path / "other")
    names = titles([source(folder), source(other)])
    assert names == ["Made <up> (out)", "Made <up> (other)"]  # both have the same title
    grid = side_by_side({name: load_results(path) for name, path in zip(names, (folder, other), strict=True)})
    assert grid.lines[0] == ["anchored", ".910 [.900, .920]", ".910 [.900, .920]"]
    page = write_report([folder, other], tmp_path / "both.html").read_text()
    together, *_ = charts_in(page)
    assert together["panel"] == [names[0]] * 2 + [names[1]] * 2
    assert together["row"] == ["anchored", "EWC"] * 2
    assert together["value"] == pytest.approx([0.91, 0.41] * 2)
    for name in names:
        assert page.count(escape(name)) >= 3  # the link, the table, the heading
    assert page.count("data-study=") == 2
    assert 'href="other/spec.toml"' in page
    assert grid.lines[0] in lines(page)


@pytest.mark.parametrize("study", ["minatar-5", pytest.param("nav-evidence/sixteen", marks=pytest.mark.slow)])
def test_published_results_of_earlier_versions_still_have_a_page(study: str, tmp_path: Path) -> None:
    page = write_report([ROOT / "results" / study], tmp_path / "report.html").read_text()
    assert "not recorded" in page
    assert "course" in charts(page)
    assert len(page) < 3e6


@pytest.mark.slow
def test_many_rows_seeds_and_tasks_make_a_page_in_time(tmp_path: Path) -> None:
    """20 rows × 50 seeds × 50 tasks: under 20 s and 15 MB."""
    import time

    from tests.report.large_study import write_large

    folder = write_large(tmp_path / "large", rows=20, seeds=50, tasks=50)
    begun = time.process_time()
    path = write_report([folder], folder / "report.html")
    assert time.process_time() - begun < 20
    assert path.stat().st_size < 15e6
