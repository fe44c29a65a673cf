"""The page is what the store, the benchmarks and the paper's numbers make it."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from crystalrl.report.verdicts import VERDICTS
from crystalrl.study.definition import Table, load_study
from crystalrl.study.spec import RunSpec
from crystalrl.study.store import Store
from crystalrl.theory.printed import derived, tables
from tools import paper_page
from tools.paper_costs import BESIDE
from tools.paper_elsewhere import ELSEWHERE, PARTS
from tools.paper_page import PAGE, Entry, entries, page, stored
from tools.stored import ROOT


@cache
def lines() -> dict[tuple[str, str, str], Entry]:
    """All numbers by table, row and metric."""
    keys = [
        (name, row, metric) for name, one in tables().items() for row in one.rows for metric in one.rows[row].numbers
    ]
    return dict(zip(keys, (one for name, table in tables().items() for one in entries(name, table)), strict=True))


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run `python -m tools.paper_page`"


def test_every_number_of_the_paper_has_a_line_and_every_verdict_a_count() -> None:
    text = PAGE.read_text(encoding="utf-8")
    numbers = sum(len(row.numbers) for table in tables().values() for row in table.rows.values())
    assert f"| all | {numbers + len(derived())} |" in text
    assert len(lines()) == numbers
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    for verdict in VERDICTS:
        listed = sum(f"| {verdict} |" in row for row in rows) - 1
        assert f"| {verdict} | {listed} |" in text


def test_nothing_of_the_paper_s_own_tasks_is_claimed_while_no_such_results_are_stored() -> None:
    ran = (ROOT / "results" / "paper").is_dir()
    assert ("Nothing of the paper's own benchmarks has been run yet" in PAGE.read_text()) != ran
    if not ran:
        assert {one.verdict for key, one in lines().items() if key[0] == "atari"} == {"not measured"}
        assert "reproduced" not in {one.verdict for one in lines().values()}


def scores(folder: str, cell: str) -> np.ndarray:
    """Mean final score of each reported seed: the last row of the learning matrix, read from the file by hand."""
    import pyarrow.parquet as pq

    parts = [pq.read_table(part).to_pandas() for part in (ROOT / "results" / folder / "scores.parquet").iterdir()]
    own = next(part[part["cell"] == cell] for part in parts if (part["cell"] == cell).any())
    last = own[(own["after"] == own["after"].max()) & (own["seed"] < 1000)]
    return last.groupby("seed")["score"].mean().to_numpy()


@pytest.mark.parametrize("row", PARTS)
def test_ours_of_the_ablation_is_the_difference_of_the_stored_scores(row: str) -> None:
    elsewhere = ELSEWHERE["ablation"]
    theirs, full = (scores(elsewhere.folder, elsewhere.rows[name]) for name in (row, "AMC"))
    difference, one = 100 * (theirs.mean() - full.mean()), lines()["ablation", row, "AP"]
    assert one.ours.startswith(f"{difference:+z.1f} [".replace("-", "−"))
    low, high = (float(end.replace("−", "-")) for end in one.ours.partition("[")[2][:-1].split(", "))
    assert low < difference < high
    excludes = low > 0 or high < 0
    assert (one.verdict == "undecided") != excludes
    if excludes:  # the paper prints a loss for every part
        assert one.verdict == ("other sign" if difference > 0 else "same sign")


def test_the_paper_s_methods_are_compared_with_the_literal_preset() -> None:
    one = lines()["metaworld", "EWC", "AP"]
    difference = (
        scores("nav-evidence/eight", "EWC strength=1.0").mean() - scores("nav-evidence/eight", "paper()").mean()
    )
    assert one.ours.startswith(f"{100 * difference:+.1f} [")
    assert one.effect == "−12.6"
    assert "4,000 slots" in one.differs
    assert "tuned on other seeds" in one.differs


def test_times_and_bytes_are_those_of_the_benchmarks() -> None:
    stored_times = json.loads((ROOT / "benchmarks" / "results" / "consolidation.json").read_text())["speed 1000000"]
    found = lines()
    assert (
        found["costs", "consolidation: build and all queries, larger", "10⁶"].ours
        == f"{stored_times['peer_seconds']:.1f} s"
    )
    assert found["costs", "all that the method adds", "10⁶ experiences"].ours == f"{stored_times['bytes']:.0f} MB"
    assert set(BESIDE) <= set(found)


def test_what_is_compared_exists() -> None:
    for name, elsewhere in ELSEWHERE.items():
        assert set(elsewhere.rows) <= set(tables()[name].rows)
        assert set(elsewhere.metrics) <= set(tables()[name].units)


def test_what_was_not_measured_names_a_study_that_exists() -> None:
    for one in lines().values():
        if one.verdict == "not measured" and one.shown.startswith("`crystalrl study"):
            study, _, table = one.shown.split("`")[1].removeprefix("crystalrl study ").partition(" --tables ")
            assert table in load_study(study)


def test_results_of_the_paper_s_own_tasks_take_the_place_of_all_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    seeds, rows = tuple(range(10)), {"VR": 0.62, "EWC": 0.2}
    table = Table("", {name: RunSpec("nav-2", seeds=seeds) for name in rows})
    cell, seed, after, task = (at.ravel() for at in np.indices((2, len(seeds), 3, 2)))
    names = np.array(list(rows))[cell]
    score = np.array(list(rows.values()))[cell] + 0.03 * np.random.default_rng(0).standard_normal(cell.size)
    lane = {"cell": names, "method": names, "seed": seed}
    scores = {**lane, "after": after, "task": task, "score": score}
    curves = {**lane, "task": task, "step": 100 + 0 * seed, "score": score}
    memory = {**lane, "task": task, "step": 0 * seed, "nbytes": 1e7 + 0 * seed}
    made = {"scores": scores, "curves": curves, "memory": memory}
    Store(tmp_path / "paper" / "metaworld" / "main", table.to_toml()).write("made", made, "cpu")
    (tmp_path / "nav-evidence").symlink_to(ROOT / "results" / "nav-evidence")
    stored.cache_clear()
    monkeypatch.setattr(paper_page, "RESULTS", tmp_path)
    request.addfinalizer(stored.cache_clear)
    found = {(one.row, one.metric): one for one in entries("metaworld", tables()["metaworld"]) if one.row in rows}
    assert found["VR", "AP, %"].verdict == "reproduced"
    assert found["EWC", "AP, %"].verdict == "other value"
    assert found["VR", "MB, MB"].ours == "10.0 [10.0, 10.0]"
    assert found["VR", "FT, pp"].verdict == "not measured"  # no row from scratch
    assert found["VR", "AP, %"].shown == "`results/paper/metaworld/main`"
    assert "`paper/metaworld/main`" in paper_page.state()
