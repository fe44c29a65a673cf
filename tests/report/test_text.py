"""Tables and sentences from made-up scores."""

from pathlib import Path

import numpy as np

from crystalrl.report import html, text
from crystalrl.study.analysis import load_results
from crystalrl.study.store import TABLES
from crystalrl.study.table_files import packed, read_part, write_part
from tests.made_up_results import MEANS


def test_without_tuning_seeds_every_value_is_a_separate_row(folder: Path) -> None:
    spec = folder / "spec.toml"
    spec.write_text(spec.read_text().replace("tuning_seeds = [1000, 1001]", "tuning_seeds = []"))
    results = load_results(folder)
    assert [row.name for row in results.rows] == list(MEANS)
    assert [line[3] for line in text.design_table(results).lines] == ["no", "yes", "yes"]
    assert html.write_report(folder).exists()


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
    assert not text.task_table(load_results(folder)).lines  # navigation tasks are of one kind
    spec = folder / "spec.toml"
    spec.write_text(spec.read_text().replace("nav-2", "classic-discrete"))
    grid = text.task_table(load_results(folder))
    assert grid.headings == ["", "CartPole-v1", "Acrobot-v1"]
    assert grid.lines[0] == ["anchored", "1.000 → .910", ".910 → .910"]


def test_the_headline_says_whether_the_lead_may_be_due_to_chance(folder: Path) -> None:
    results = load_results(folder)
    assert "is unlikely to be due to chance" in text.headline(results)
    blurred = np.array([0.0, 1.0, 0.4])
    for row in results.rows:
        row.chosen.metrics["AP"] = blurred + (row.name == "anchored") * 0.01
    assert "may be due to chance" in text.headline(results)


def test_numbers_are_short_and_unknown_ones_are_dashes() -> None:
    assert [text.number(x) for x in (0.5, -0.25, 0.0, 1.0, 0.9999, 12.3456)] == [
        ".500", "-.250", ".000", "1.000", "1.000", "12.346"
    ]  # fmt: skip
    assert text.interval(np.array([np.nan, 1.0])) == "–"
    assert text.probability(float("nan")) == "–"
