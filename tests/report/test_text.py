"""Tables and sentences from made-up scores."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from crystalrl.report import text
from crystalrl.report.study_page import write_report
from crystalrl.study.analysis import Results, compare, load_results
from crystalrl.study.definition import Table
from crystalrl.study.spec import RunSpec
from crystalrl.study.stats import holm, welch
from crystalrl.study.store import TABLES
from crystalrl.study.table_files import packed, read_part, write_part
from tests.made_up_results import MEANS


def test_without_tuning_seeds_every_value_is_a_separate_row(folder: Path) -> None:
    spec = folder / "spec.toml"
    spec.write_text(spec.read_text().replace("tuning_seeds = [1000, 1001]", "tuning_seeds = []"))
    results = load_results(folder)
    assert [row.name for row in results.rows] == list(MEANS)
    assert [line[3] for line in text.design_table(results).lines] == ["no", "yes", "yes"]
    assert write_report([folder], folder / "report.html").exists()


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
    assert "One setting at a time" in write_report([folder], folder / "report.html").read_text()


def test_tasks_of_different_kinds_are_shown_one_by_one(folder: Path) -> None:
    assert not text.task_table(load_results(folder)).lines  # navigation tasks are of one kind
    spec = folder / "spec.toml"
    spec.write_text(spec.read_text().replace("nav-2", "classic-discrete"))
    grid = text.task_table(load_results(folder))
    assert grid.headings == ["", "CartPole-v1", "Acrobot-v1"]
    assert grid.lines[0] == ["anchored", "1.000 → .910", ".910 → .910"]


def with_seeds(results: Results, samples: Mapping[str, Sequence[float]]) -> Results:
    """The results with other AP for each row, one per seed."""
    rows = []
    for row in results.rows:
        values = np.array(samples[row.name])
        seeds, metrics = tuple(range(len(values))), {**row.chosen.metrics, "AP": values}
        rows.append(replace(row, chosen=replace(row.chosen, seeds=seeds, metrics=metrics)))
    return replace(results, rows=tuple(rows))


def test_the_headline_says_whether_the_lead_may_be_due_to_chance(folder: Path) -> None:
    results, noise = load_results(folder), np.linspace(0, 0.3, 12)
    clear = with_seeds(results, {"anchored": 0.6 + noise, "EWC": noise})
    said = text.headline(clear)
    assert "Its lead over the best of another method, EWC strength=10.0 (0.15), is unlikely to be due to chance" in said
    assert said.endswith("(+0.600 [+0.517, +0.683], Welch’s test, Holm p < .0001, 12 seeds).")
    assert "anchored scores 0.75 [0.69, 0.81] on average over all tasks. " in said
    assert "may be due to chance" in text.headline(with_seeds(results, {"anchored": 0.01 + noise, "EWC": noise}))
    assert "After one task, anchored scores 0.75 [0.69, 0.81]. " in text.headline(replace(clear, tasks=(0,)))


def test_with_few_seeds_the_headline_says_so_and_claims_nothing(folder: Path) -> None:
    said = text.headline(load_results(folder))
    assert "comes from only 3 seeds: chance cannot be ruled out, and intervals from so few seeds contain" in said
    assert "unlikely" not in said
    one = with_seeds(load_results(folder), {"anchored": [0.9], "EWC": [0.5]})
    assert "only 1 seed: " in text.headline(one)
    assert text.headline(one).endswith("(+0.400, Welch’s test, Holm p –, 1 seed).")


def test_few_seeds_are_named_also_without_another_method(folder: Path) -> None:
    results = load_results(folder)
    for rows in (results.rows[:1], (results.rows[0], replace(results.rows[0], name="other setting"))):
        said = text.headline(replace(results, rows=rows))
        assert said.endswith(f" With only 3 seeds, {text.UNDERCOVER}.")
    one = with_seeds(replace(results, rows=results.rows[:1]), {"anchored": [0.9]})
    assert text.headline(one).endswith(" With only 1 seed, how much scores vary between seeds is not known.")


def other_rows(folder: Path) -> Results:
    """Three rows of one method and two others: the reference is the second best of the first method."""
    results, noise = load_results(folder), np.linspace(0, 0.3, 12)
    spec = results.rows[0].spec
    made = {"tuned": (spec, 0.62), "anchored": (spec, 0.6), "weak": (spec, 0.58)}
    made |= {"PER": (replace(spec, memory="prioritized", preset=""), 0.5), "VR": (RunSpec("nav-2"), 0.1)}
    rows = tuple(replace(results.rows[0], name=name, spec=spec) for name, (spec, _) in made.items())
    rows = tuple(replace(row, chosen=replace(row.chosen, name=row.name)) for row in rows)
    return with_seeds(replace(results, rows=rows), {name: at + noise for name, (_, at) in made.items()})


def test_rows_of_one_method_count_as_one_in_the_headline(folder: Path) -> None:
    results = other_rows(folder)
    said = text.headline(results)
    assert "tuned scores 0.77" in said
    assert "Its lead over the best of another method, PER (0.65)" in said
    settings = replace(results, rows=results.rows[:3])  # each with twelve seeds
    assert text.headline(settings).endswith("; weak scores 0.73. All rows are settings of one method.")


def test_the_p_value_of_the_headline_is_corrected(folder: Path) -> None:
    """Neither row is the reference: all pairs of a row of the best method and another count. With the reference, the
    family of the table.
    """
    results = other_rows(folder)
    *own, per, vr = (row.chosen.metrics["AP"] for row in results.rows)
    pairs = holm([welch(a, b) for a in own for b in (per, vr)])
    assert f"Holm p {text.probability(pairs[0])}," in text.headline(results)
    without_tuned = replace(results, rows=results.rows[1:])
    (tested,) = (c for c in compare(without_tuned) if c.row == "PER")
    assert tested.adjusted > tested.p
    assert f"Holm p {text.probability(tested.adjusted)}," in text.headline(without_tuned)


@pytest.mark.slow
def test_the_best_of_many_settings_is_rarely_called_better_than_an_equal_method(folder: Path) -> None:
    """Ten settings of one method and one other, all equally good: the best of ten was chosen after the fact."""
    results, random, claims = other_rows(folder), np.random.default_rng(0), 0
    spec = {row.name: row.spec for row in results.rows}
    names = {f"setting {k}": spec["anchored"] for k in range(10)} | {"PER": spec["PER"], "VR": spec["VR"]}
    rows = tuple(replace(results.rows[0], name=name, spec=own) for name, own in names.items())
    made = replace(results, rows=rows, table=Table("", names, reference="VR"))
    for _ in range(200):
        samples = {name: random.normal(0.5, 0.1, 12) - 0.4 * (name == "VR") for name in names}
        drawn = with_seeds(made, samples)
        settings = sorted(drawn.rows[:10], key=lambda row: -row.chosen.metrics["AP"].mean())
        claims += text._corrected(drawn, settings[0], [drawn.rows[10]]) < 0.05
    assert claims <= 0.05 * 200


def test_numbers_are_short_and_unknown_ones_are_dashes() -> None:
    assert [text.number(x) for x in (0.5, -0.25, 0.0, -0.0001, 1.0, 0.9999, 12.3456)] == [
        ".500", "-.250", ".000", ".000", "1.000", "1.000", "12.346"
    ]  # fmt: skip
    assert text.interval(np.array([np.nan, 1.0])) == "–"
    assert text.probability(float("nan")) == "–"
