"""Pages and sentences from made-up scores."""

import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from crystalrl.report import figures, html, text
from crystalrl.study.analysis import compare, load_results
from crystalrl.study.definition import Table
from crystalrl.study.spec import RunSpec
from crystalrl.study.store import TABLES, Store
from crystalrl.study.table_files import packed, read_part, write_part

ROWS = {
    "anchored": RunSpec("nav-2", memory="crystal", preset="anchored", seeds=(0, 1, 2)),
    "EWC": RunSpec("nav-2", method="ewc", seeds=(0, 1, 2), method_params={"strength": [1.0, 10.0]}),
}
TABLE = Table("Made <up>", ROWS, tuning_seeds=(1000, 1001), reference="anchored")
MEANS = {"anchored": (0.9, 0.9), "EWC strength=1.0": (0.8, 0.3), "EWC strength=10.0": (0.4, 0.6)}
"""Final score of every cell on the reported and on the tuning seeds."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    columns: dict[str, dict[str, list[object]]] = {
        "scores": {c: [] for c in ("cell", "method", "seed", "after", "task", "score")},
        "curves": {c: [] for c in ("cell", "method", "seed", "task", "step", "score")},
        "memory": {c: [] for c in ("cell", "method", "seed", "step", "task", "nbytes", "liquid", "glass", "crystal")},
    }

    def add(table: str, *values: object) -> None:
        for column, value in zip(columns[table].values(), values, strict=True):
            column.append(value)

    for cell, means in MEANS.items():
        method = cell.partition(" ")[0]
        for seed in (0, 1, 2, *((1000, 1001) if method == "EWC" else ())):
            mean = means[seed >= 1000] + 0.01 * (seed % 1000)
            add("memory", cell, method, seed, 0, 0, 2e6, *[np.nan] * 3)
            for step in (100, 200) if method == "anchored" else ():
                add("memory", cell, method, seed, step, step // 200, 2e6, 5.0 + seed, 2.0, step / 100)
            for after in range(3):
                for task in range(2):
                    add("scores", cell, method, seed, after, task, mean if after == 2 else float(after > task))
            for task in range(2):
                add("curves", cell, method, seed, task, 100, 0.5)
    Store(tmp_path / "out", TABLE.to_toml()).write("made", columns, "cpu")
    return tmp_path / "out"


def test_a_value_is_chosen_on_the_tuning_seeds_even_where_another_reports_better(folder: Path) -> None:
    results = load_results(folder)
    ewc = results.rows[1]
    assert ewc.chosen.name == "EWC strength=10.0"
    assert ewc.chosen.metrics["AP"] == pytest.approx([0.40, 0.41, 0.42])
    assert ewc.tuned == pytest.approx({"EWC strength=1.0": 0.305, "EWC strength=10.0": 0.605})


def test_without_tuning_seeds_every_value_is_a_row_of_its_own(folder: Path) -> None:
    spec = folder / "spec.toml"
    spec.write_text(spec.read_text().replace("tuning_seeds = [1000, 1001]", "tuning_seeds = []"))
    results = load_results(folder)
    assert [row.name for row in results.rows] == list(MEANS)
    assert [line[3] for line in text.design_table(results).lines] == ["no", "yes", "yes"]
    assert html.write_report(folder).exists()


def test_the_comparison_is_with_the_reference_row(folder: Path) -> None:
    (only,) = compare(load_results(folder))
    assert (only.row, round(only.difference, 3)) == ("EWC", 0.5)
    assert only.p == only.adjusted < 1e-4


def test_every_metric_of_the_family_is_adjusted_with_the_others(folder: Path) -> None:
    spec = folder / "spec.toml"
    spec.write_text(spec.read_text().replace("tuning_seeds =", 'family = ["AP", "learned"]\ntuning_seeds ='))
    results = load_results(folder)
    ap, learned = compare(results)
    assert (ap.metric, learned.metric) == ("AP", "learned")
    assert ap.adjusted == pytest.approx(2 * ap.p)
    assert "in AP, learned, 2 in all" in text.family(results)
    assert float(ap.better.value) == 1.0
    line = text.comparison_table(results).lines[0]
    assert line[:3] == ["EWC", "AP", "+0.500"]
    assert "1.000 [1.000, 1.000]" in line


def test_settings_varied_one_at_a_time_are_compared_with_the_first_ones(folder: Path) -> None:
    spec = folder / "spec.toml"
    spec.write_text(spec.read_text().replace("[rows.EWC]", '[rows.EWC]\ngrid = "each"'))
    for path in folder.glob("*.parquet/*"):
        columns = read_part(path, TABLES[path.parent.stem], more=path.parent.stem == "memory")
        columns["cell"] = np.where(columns["cell"] == "EWC strength=1.0", "EWC", columns["cell"])
        write_part(path.with_suffix(""), packed(columns, TABLES[path.parent.stem]))
    first, other = text.sensitivity_table(load_results(folder)).lines
    assert first == ["EWC", "first values", ".810 [.800, .820]", "", ""]
    assert other[:4] == ["EWC", "strength=10.0", ".410 [.400, .420]", "-0.400"]
    assert "One setting at a time" in html.write_report(folder).read_text()


def test_tasks_of_different_kinds_are_shown_one_by_one(folder: Path) -> None:
    assert not text.task_table(load_results(folder)).lines  # navigation's are of one kind
    spec = folder / "spec.toml"
    spec.write_text(spec.read_text().replace("nav-2", "classic-discrete"))
    grid = text.task_table(load_results(folder))
    assert grid.headings == ["", "CartPole-v1", "Acrobot-v1"]
    assert grid.lines[0] == ["anchored", "1.000 → .910", ".910 → .910"]


def test_the_headline_calls_a_lead_chance_where_it_may_be(folder: Path) -> None:
    results = load_results(folder)
    assert "is unlikely to be chance" in text.headline(results)
    blurred = np.array([0.0, 1.0, 0.4])
    for row in results.rows:
        row.chosen.metrics["AP"] = blurred + (row.name == "anchored") * 0.01
    assert "may be chance" in text.headline(results)


def test_the_page_is_whole_escaped_and_loads_nothing_from_elsewhere(folder: Path) -> None:
    page = html.write_report(folder).read_text()
    assert "<h1>Made &lt;up&gt;</h1>" in page
    for heading in ("Who competes", "The learning matrix", "phases over time", "Tests", "Every value tried"):
        assert heading in page
    assert not re.findall(r'(?:src|href)="(?!#|data:)[^"]*"', page.replace("xlink:", ""))
    assert page.count("<svg") == 6


def test_phases_over_time_are_means_over_the_seeds_at_each_consolidation(folder: Path) -> None:
    results = load_results(folder)
    steps, filled = figures.phase_course(results, results.rows[0])
    assert steps.tolist() == [100, 200]
    assert filled.tolist() == [[6.0, 6.0], [2.0, 2.0], [1.0, 2.0]]


def test_results_without_the_memory_table_are_reported_without_what_it_tells(folder: Path) -> None:
    assert results_of(folder) == [".910 [.900, .920]", ".455 [.450, .460]"]
    shutil.rmtree(folder / "memory.parquet")
    assert results_of(folder) == [".910 [.900, .920]", "–"]
    page = html.write_report(folder).read_text()
    assert "phases over time" not in page
    assert page.count("<svg") == 5


def results_of(folder: Path) -> list[str]:
    """AP and AP per megabyte of the first row."""
    return text.main_table(load_results(folder), ("AP", "AP per MB")).lines[0][1:3]


def test_numbers_are_short_and_unknown_ones_are_dashes() -> None:
    assert [text.number(x) for x in (0.5, -0.25, 0.0, 1.0, 0.9999, 12.3456)] == [
        ".500", "-.250", ".000", "1.000", "1.000", "12.346"
    ]  # fmt: skip
    assert text.interval(np.array([np.nan, 1.0])) == "–"
    assert text.probability(float("nan")) == "–"
