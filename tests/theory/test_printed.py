"""The transcription agrees with itself and, where the paper's source is at hand, with the paper."""

from __future__ import annotations

import os
import re
from collections import Counter
from pathlib import Path

import pytest

from crystalrl.study.definition import load_study
from crystalrl.theory.printed import HOW, Number, derived, fractions, tables

PAPER = os.environ.get("CRYSTALRL_PAPER", "")
"""Path of the paper's LaTeX source, which is not part of this repository."""
RESULTS = ("metaworld", "atari", "mujoco", "ablation", "sensitivity", "bio", "knn_complexity", "summary")
"""Labels of the paper's tables of results."""
ALSO = {1580: (1, 3), 1581: (6, 24)}
"""Line → numbers that are no results: hours of biology."""


def test_memory_efficiency_is_performance_per_megabyte() -> None:
    for name in ("metaworld", "matched"):
        for row in tables()[name].rows.values():
            numbers = {metric: number.value for metric, number in row.numbers.items()}
            assert numbers["ME"] == pytest.approx(numbers["AP"] / numbers["MB"], abs=0.0006)


def test_rows_that_the_paper_prints_twice_are_equal() -> None:
    main, matched, ablation = (tables()[name].rows for name in ("metaworld", "matched", "ablation"))
    assert main["AMC"].numbers == matched["AMC"].numbers
    for metric in ("AP", "BT"):
        assert ablation["AMC"].numbers[metric] == main["AMC"].numbers[metric]
        assert ablation["no crystallization"].numbers[metric] == main["PER"].numbers[metric]  # sic
    assert {row.numbers["highest AP"].value for row in tables()["sensitivity"].rows.values()} == {81.7}


def test_shares_of_the_phases_sum_to_the_whole_memory() -> None:
    shares = [row.numbers["share"].value for row in tables()["contents"].rows.values() if "share" in row.numbers]
    assert len(shares) == 3
    assert sum(shares) == pytest.approx(100)


def test_a_whole_consolidation_is_the_index_and_all_queries() -> None:
    runtimes, costs = tables()["knn"].rows, tables()["costs"].rows
    for size, whole in (
        ("10⁵", costs["consolidation: build and all queries"]),
        ("10⁶", costs["consolidation: build and all queries, larger"]),
    ):
        parts = (runtimes[name].numbers[size].value for name in ("build of the index", "a query for each experience"))
        assert sum(parts) == pytest.approx(whole.numbers[size].value)


def test_every_number_has_a_unit_and_a_last_digit_of_which_it_is_a_multiple() -> None:
    for table in tables().values():
        for row in table.rows.values():
            for metric, number in row.numbers.items():
                assert table.units[metric]
                for value in (number.value, number.spread or 0.0):
                    steps = value / table.steps[metric]
                    assert steps == pytest.approx(round(steps), abs=1e-6) or value == 0.001


def test_derived_numbers_are_computed_from_the_table_that_they_name() -> None:
    for one in derived():
        low, high = one.range
        assert low <= one.exact <= high
        assert one.how[0] in HOW
    wrong = {(one.line, one.value) for one in derived() if not one.follows}
    assert wrong == {(1909, 6.9), (1909, 67), (1911, 80), (79, 67), (1375, 6.9), (1376, 2.3), (1383, 2.7), (1436, 4.7)}


def test_operations_are_what_their_names_say() -> None:
    a, b = Number(80.0, 3.0), Number(50.0, 4.0)
    found = {name: operation(a, b) for name, operation in HOW.items()}
    assert found == pytest.approx(
        {"difference": 30, "span": 30, "gain": 60, "reduction": -60, "loss": 60, "ratio": 1.6, "effect": 30 / 12.5**0.5}
    )
    with pytest.raises(ValueError, match="wanted a number with a standard deviation, got 1"):
        HOW["effect"](Number(1), b)


def test_studies_of_the_paper_show_its_numbers() -> None:
    shown = {name: load_study(name) for name in ("paper/metaworld", "paper/atari", "paper/mujoco", "paper/ablation")}
    assert shown["paper/metaworld"]["matched"].paper["PER"] == {"AP": 0.636, "BT": -0.263}
    assert shown["paper/mujoco"]["main"].paper["VR"] == {"task-1 retention": 0.25}
    assert shown["paper/atari"]["main"].paper["AMC"] == {"AP": 2.01, "BT": -0.097}
    assert shown["paper/ablation"]["ablation"].paper == fractions("ablation")
    for name, table in tables().items():
        assert not table.study or table.part in load_study(table.study), name


def read(text: str) -> list[float]:
    """The numbers of a line of LaTeX, without those of names of symbols, exponents and thousands."""
    text = re.sub(
        r"O\([^)]*\)|[a-zA-Z]_\w|\^\{[^}]*\}|\^\S|\\[a-zA-Z]+|Task.\d+|\d+/(?=50)",
        lambda m: m[0] if "/" in m[0] else " ",
        text,
    )
    return [
        float(number) for number in re.findall(r"(?<![\w.])\d+(?:\.\d+)?", text.replace(r"\,", " ").replace("{,}", ""))
    ]


def said(value: float) -> set[float]:
    """How the paper may print a value: seconds also as milliseconds, steps also in thousands."""
    return {round(abs(value) * factor, 6) for factor in (1, 1000, 0.001)}


def printed() -> dict[int, list[float]]:
    """Line → all transcribed numbers that stand there."""
    found: dict[int, list[float]] = {}
    for table in tables().values():
        for row in table.rows.values():
            for number in row.numbers.values():
                found.setdefault(row.line, []).extend(
                    [number.value, *([] if number.spread is None else [number.spread])]
                )
            found[row.line].extend(row.tested)
    for one in derived():
        found.setdefault(one.line, []).append(one.value)


@pytest.mark.skipif(not PAPER, reason="CRYSTALRL_PAPER does not name the paper's LaTeX source")
def test_every_number_stands_on_its_line_of_the_paper() -> None:
    lines = Path(PAPER).read_text().splitlines()
    missing = [
        (line, value)
        for line, values in printed().items()
        for value in values
        if not said(value) & {round(number, 6) for number in read(lines[line - 1])}
    ]
    assert missing == []


def rows_of_tables(lines: list[str]) -> list[int]:
    """Lines of the tables of results that hold rows, counted from 1."""
    found, label, open_ = [], "", False
    for place, line in enumerate(lines, 1):
        label = named[1] if (named := re.search(r"label\{tab:(\w+)\}", line)) else label
        open_ = (open_ or "\\midrule" in line) and "\\bottomrule" not in line
        if open_ and label in RESULTS and "&" in line and re.search(r"\d", line):
            found.append(place)


@pytest.mark.skipif(not PAPER, reason="CRYSTALRL_PAPER does not name the paper's LaTeX source")
def test_every_number_of_the_tables_of_results_is_transcribed() -> None:
    lines, ours = Path(PAPER).read_text().splitlines(), printed()
    places = rows_of_tables(lines)
    assert len(places) == 12 + 5 + 4 + 9 + 7 + 3 + 3 + 3
    for place in places:
        label, _, numbers = lines[place - 1].partition("&")
        mine = [*ours[place], *ALSO.get(place, ())]
        left = Counter(round(number, 6) for number in read(re.sub(r"/20", "", numbers)))
        for value in mine:
            same = [number for number in said(value) if left[number]]
            assert same, (place, label, value)
            left[same[0]] -= 1
        assert not +left, (place, label, +left)
