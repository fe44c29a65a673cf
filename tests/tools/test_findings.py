"""What docs/evidence.md says in words holds for its tables, and the rules of its tables are what they say."""

from __future__ import annotations

import pytest

from crystalrl.study.stats import welch_interval
from tools import findings
from tools.stored import results_of


def cells(table: str) -> dict[str, list[str]]:
    """The rows of a table by their first cell (and second, if that is not enough)."""
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]]
    return {
        row[0] if [other[0] for other in rows].count(row[0]) == 1 else f"{row[0]}: {row[1]}": row[1:] for row in rows
    }


def test_no_part_of_the_paper_s_method_helps_measurably_and_some_hurt() -> None:
    verdicts = [row[-1] for row in cells(findings.parts()).values()]
    assert len(verdicts) == 8
    assert set(verdicts) == {"undecided", "other sign"}


def test_the_paper_s_method_is_not_told_apart_from_replay_and_is_behind_ewc() -> None:
    for key, row in cells(findings.literal()).items():
        assert row[-1] == ("other sign" if "EWC" in key else "undecided"), key


def test_distillation_is_equal_where_no_task_is_redefined_and_sac_does_not_tell_it_apart_where_some_are() -> None:
    even = cells(findings.even())
    assert {"eight tasks", "sixteen tasks, few slots", "ten tasks without ids", "SAC", "TD3"} <= set(even)
    assert {key.split(": ")[1] for key in even if key.startswith("SAC, two")} == {
        "distillation (knows when tasks end)",
        "reservoir",
    }


def test_the_slow_learner_learns_a_little_less_than_with_a_reservoir() -> None:
    ours, theirs = (
        next(row for row in results_of("default/reach-slow").rows if row.name == name).chosen.metrics["learned"]
        for name in ("default", "reservoir")
    )
    assert -0.06 < welch_interval(ours, theirs)[0] < welch_interval(ours, theirs)[1] < 0
    assert "| SAC, slow learner | reservoir | learned |" in findings.behind()


def test_another_method_is_ahead_only_where_its_interval_excludes_zero() -> None:
    rows = findings.behind().splitlines()[2:]
    assert rows
    for row in rows:
        low, high = (float(end.replace("−", "-")) for end in row.partition("[")[2].partition("]")[0].split(", "))
        assert low < high < 0


def test_a_default_that_is_not_stored_is_compared_with_nothing() -> None:
    if "Breakout" in findings.even() + findings.behind():
        assert results_of("default/one-breakout").reference.name == "default"


@pytest.mark.parametrize("name", ["EWC (knows when tasks end)", "crystalrl, earlier defaults"])
def test_on_minatar_nearly_half_is_lost(name: str) -> None:
    final, learned = (float(cell.split()[0]) for cell in cells(findings.minatar())[name])
    assert 0.35 < 1 - final / learned < 0.55
