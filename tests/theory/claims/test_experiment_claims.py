"""Evidence from the printed tables: the known numbers, and the statistics against samples."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from crystalrl.theory.claims.experiment_claims import ATARI, CLAIMS, META, MUJOCO, SEEDS, cohen, rounded_range, welch
from tests.theory.claims.evidence import assert_has, evidence


@pytest.mark.parametrize(
    ("where", "numbers"),
    [
        ("Table metaworld, bold BT", ("-13.4", "5e-23")),
        ("Table metaworld, p", ("5.5e-07",)),
    ],
)
def test_the_evidence_reproduces_the_known_numbers(where: str, numbers: tuple[str, ...]) -> None:
    assert_has(CLAIMS, where, numbers)


def sample(mean: float, deviation: float) -> np.ndarray:
    """As many numbers as the paper has seeds, with exactly this mean and standard deviation."""
    drawn = np.random.default_rng(0).normal(size=SEEDS)
    return mean + deviation * (drawn - drawn.mean()) / drawn.std(ddof=1)


def test_effect_size_and_test_from_printed_numbers_are_those_of_samples_with_these_numbers() -> None:
    ours, theirs = META["AMC"][0], META["PER"][0]
    one, two = sample(*ours), sample(*theirs)
    result = stats.ttest_ind(one, two, equal_var=False)
    assert welch(ours, theirs) == pytest.approx((result.statistic, result.pvalue), rel=1e-9)
    pooled = np.sqrt((one.var(ddof=1) + two.var(ddof=1)) / 2)
    assert cohen(ours, theirs) == pytest.approx((one.mean() - two.mean()) / pooled)
    assert_has(CLAIMS, "Meta-World, d over PER", ("3.73",))
    assert_has(CLAIMS, "Meta-World, d over PNN", ("1.99",))


def test_the_reduction_of_forgetting_is_67_percent_against_no_baseline_and_negative_against_the_best() -> None:
    assert_has(CLAIMS, "Table summary, 67 %", ("79.9%", "68.0%", "70.4%", "25.0%", "-200.0%"))


def test_the_range_of_the_effect_size_is_that_of_numbers_with_the_same_print() -> None:
    rng = np.random.default_rng(0)
    for first, second, unit in ((ATARI["AMC"][0], ATARI["PackNet"][0], 1.0), (META["AMC"][0], META["PNN"][0], 0.1)):
        off = rng.uniform(-unit / 2, unit / 2, (4, 200_000))
        gap = first[0] + off[0] - second[0] - off[1]
        d = gap / np.sqrt(((first[1] + off[2]) ** 2 + (second[1] + off[3]) ** 2) / 2)
        low, high = rounded_range(first, second, unit)
        assert low <= d.min() < low + 0.05
        assert high - 0.05 < d.max() <= high


def test_atari_and_meta_world_are_judged_alike() -> None:
    """Printed 1.1 (1.22 from the numbers) and 1.9 (1.99) are within rounding, 2.3 (3.73) and 4.7 (5.95) are not."""
    verdicts = {claim.place.name: claim.verdict for claim in CLAIMS}
    for where, verdict in (
        ("Atari, d over PackNet", "true"),
        ("Meta-World, d over PNN", "true"),
        ("Meta-World, d over PER", "false"),
        ("MuJoCo, d over EWC", "false"),
    ):
        assert verdicts[where] == verdict
        assert ("not possible" in evidence(CLAIMS, where)) == (verdict == "false")


def test_the_range_of_the_abstract_leaves_out_atari() -> None:
    lost = {name: 100 - row[1] for name, row in MUJOCO.items()}
    assert_has(CLAIMS, "Abstract, 67–80 %", ("22%", f"{1 - lost['AMC'] / lost['EWC']:.0%}", "-200%"))


def test_sixteen_games_and_fourteen_are_told_apart_by_no_permutation_test() -> None:
    """P of a split of 30 successes over two times 20 games that is at least as uneven."""
    rng = np.random.default_rng(0)
    games = np.r_[np.ones(30), np.zeros(10)]
    uneven = [abs(rng.permutation(games)[:20].sum() - 15) >= 1 for _ in range(5000)]
    assert np.mean(uneven) == pytest.approx(0.72, abs=0.03)
    assert_has(CLAIMS, "Table atari, 16/20", ("0.72",))
