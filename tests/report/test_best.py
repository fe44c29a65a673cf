"""What is marked as best."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from crystalrl.report import text
from crystalrl.report.best import corrected, significantly_best
from crystalrl.study.analysis import compare, load_results
from crystalrl.study.stats import holm, welch
from tests.report.test_text import other_rows, with_seeds

NOISE = np.linspace(0, 0.3, 12)


def test_only_a_row_that_beats_every_other_method_significantly_is_best(folder: Path) -> None:
    results = other_rows(folder)
    samples = {row.name: row.chosen.metrics["AP"] for row in results.rows}
    assert significantly_best(with_seeds(results, {**samples, "PER": 0.58 + NOISE}), "AP") is None
    clear = with_seeds(results, {**samples, "tuned": 0.9 + NOISE / 3})
    best = significantly_best(clear, "AP")
    assert best is not None
    assert best.name == "tuned"  # settings of the same method do not count, however close they are
    grid = text.main_table(clear, ("AP",))
    assert grid.best == {(0, 1)}
    assert "**" in grid.markdown().splitlines()[2]
    assert "**" not in "".join(grid.markdown().splitlines()[3:])


def test_nothing_is_best_with_few_seeds_or_unknown_scores(folder: Path) -> None:
    results = load_results(folder)
    assert significantly_best(results, "AP") is None  # three seeds, however large the lead
    many = with_seeds(results, {"anchored": 0.9 + NOISE / 3, "EWC": NOISE / 3})
    assert significantly_best(many, "AP") is not None
    unknown = with_seeds(results, {"anchored": np.full(12, np.nan), "EWC": np.full(12, np.nan)})
    assert significantly_best(unknown, "AP") is None
    assert text.headline(unknown) == "No row has scores on all tasks yet."


def test_less_forgetting_is_better(folder: Path) -> None:
    results = with_seeds(load_results(folder), {"anchored": NOISE, "EWC": NOISE})
    rows = [
        replace(row, chosen=replace(row.chosen, metrics={"forgetting": at + NOISE / 10}))
        for row, at in zip(results.rows, (0.5, 0.1), strict=True)
    ]
    best = significantly_best(replace(results, rows=tuple(rows)), "forgetting")
    assert best is not None
    assert best.name == "EWC"


def test_the_reference_is_best_only_if_the_tests_of_its_study_say_so(folder: Path) -> None:
    """A larger family can make a lead uncertain: the mark and the table of tests must agree."""
    results = other_rows(folder)
    rows = {"anchored": 0.6 + NOISE, "tuned": 0.6 + NOISE, "weak": 0.6 + NOISE, "PER": 0.515 + NOISE, "VR": NOISE / 3}
    close = with_seeds(results, rows)
    reference = close.reference
    assert reference.name == "anchored"
    others = [row for row in close.rows if row.name in ("PER", "VR")]
    alone = holm([welch(rows["anchored"], rows[row.name]) for row in others])
    tested = {c.row: c.adjusted for c in compare(close) if c.metric == "AP"}
    assert corrected(close, "AP", reference, others) == [tested["PER"], tested["VR"]]
    assert tested["PER"] > alone[0]  # the family also has the rows of the method itself
