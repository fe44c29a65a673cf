"""What docs/baselines.md says in words holds for the stored results."""

from __future__ import annotations

import pytest

from crystalrl.study.analysis import compare
from crystalrl.study.stats import welch_interval
from tools.stored import results_of

RESULTS = results_of("baselines/nav-10")
MEANS = {row.name: {name: values.mean() for name, values in row.chosen.metrics.items()} for row in RESULTS.rows}
PLAIN = {"VR", "PER", "reservoir", "A-GEM", "MIR", "ReDo", "fine-tuning", "paper"}
"""Far behind."""


def told_apart(metric: str, sign: int) -> set[str]:
    """Rows whose difference from the default has this sign, p < .05 after correction."""
    found = [one for one in compare(RESULTS) if one.metric == metric and one.adjusted < 0.05]
    return {one.row for one in found if one.difference * sign > 0}


def test_only_joint_training_is_ahead_in_the_end() -> None:
    assert told_apart("AP", -1) == {"joint"}


def test_who_is_behind_and_who_is_not_told_apart() -> None:
    behind = told_apart("AP", 1)
    assert behind == PLAIN | {"EWC", "PackNet", "CLEAR", "DER++", "DER"}
    assert all(MEANS["default"]["AP"] - MEANS[name]["AP"] > 0.5 for name in PLAIN)
    even = {row.name for row in RESULTS.rows} - behind - {"joint", "default"}
    assert even == {"distillation", "ClonEx", "RECALL", "SI", "L2", "MAS", "perfect memory"}


def test_who_forgets_less() -> None:
    assert told_apart("forgetting", 1) == {"PackNet", "distillation", "ClonEx", "joint", "perfect memory"}
    assert MEANS["PackNet"]["forgetting"] == 0


@pytest.mark.parametrize("name", ["PackNet", "ClonEx"])
def test_new_tasks_are_learnt_better_than_with_packnet_and_clonex(name: str) -> None:
    ours, theirs = (
        next(row for row in RESULTS.rows if row.name == each).chosen.metrics["learned"] for each in ("default", name)
    )
    assert welch_interval(ours, theirs)[0] > 0


def test_the_expected_order_of_the_baselines_holds() -> None:
    lost = {name: means["forgetting"] for name, means in MEANS.items()}
    assert min(lost["fine-tuning"], lost["A-GEM"]) > 0.5 > lost["EWC"] > max(lost["PackNet"], lost["ClonEx"])
    assert max(MEANS, key=lambda name: MEANS[name]["AP"]) == "joint"


def test_the_memory_for_all_experiences_is_35_times_as_large() -> None:
    assert MEANS["perfect memory"]["MB"] / MEANS["default"]["MB"] == pytest.approx(35, abs=0.5)
