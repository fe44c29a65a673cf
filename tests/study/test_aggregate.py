"""Statistics over tasks and orders, by hand, against SciPy and statsmodels, and by simulation."""

import numpy as np
import pytest
from pandas import DataFrame
from scipy import stats as scipy_stats
from statsmodels.formula.api import ols
from statsmodels.stats.anova import anova_lm

from crystalrl.study.aggregate import (
    improvement,
    interquartile_mean,
    order_variance,
    profile,
    redrawn,
    stratified,
)


def test_the_interquartile_mean_leaves_out_a_quarter_at_either_end() -> None:
    scores = np.array([[0.0, 100.0, 3.0, 5.0], [4.0, 2.0, -50.0, 6.0]])
    assert interquartile_mean(scores) == pytest.approx((2 + 3 + 4 + 5) / 4)
    assert interquartile_mean(np.stack([scores, scores + 1])) == pytest.approx([3.5, 4.5])


def test_strata_are_redrawn_from_themselves_alone_and_keep_their_sizes() -> None:
    strata = np.array([1, 0, 1, 2, 0, 0])
    drawn = redrawn(6, strata, 3000)
    assert (strata[drawn] == strata).all()
    for place in range(6):
        mine = np.flatnonzero(strata == strata[place])
        shares = [(drawn[:, place] == one).mean() for one in mine]
        assert shares == pytest.approx([1 / len(mine)] * len(mine), abs=0.04)
    with pytest.raises(ValueError, match="wanted one label for each of 6"):
        redrawn(6, strata[:5], 10)


def test_the_bootstrap_of_a_mean_is_scipys() -> None:
    scores = np.random.default_rng(5).beta(2, 5, size=(24, 3))
    ours = stratified(scores, lambda s: s.mean(axis=(-1, -2)), resamples=20_000)
    theirs = scipy_stats.bootstrap((scores.mean(axis=1),), np.mean, method="percentile", rng=1).confidence_interval
    assert (float(ours.low), float(ours.high)) == pytest.approx((theirs.low, theirs.high), abs=0.003)


def test_the_interval_of_the_iqm_holds_its_true_value_if_learners_are_redrawn_whole() -> None:
    """Tasks as strata, drawn independently of each other, say too little where one learner learnt them all."""
    random = np.random.default_rng(9)
    many = np.array([-0.5, 0.0, 0.2, 0.4]) + random.normal(0, 0.3, (10**5, 1)) + random.normal(0, 0.1, (10**5, 4))
    truth = float(interquartile_mean(many))
    whole, apart = _covered(truth, False), _covered(truth, True)
    assert 0.90 <= whole <= 0.985
    assert apart < 0.8


def _covered(truth: float, apart: bool) -> float:
    random, inside = np.random.default_rng(8), 0
    for _ in range(300):
        scores = np.array([-0.5, 0.0, 0.2, 0.4]) + random.normal(0, 0.3, (24, 1)) + random.normal(0, 0.1, (24, 4))
        rows, labels = (scores.reshape(-1, 1), np.tile(np.arange(4), 24)) if apart else (scores, None)
        e = stratified(rows, interquartile_mean, labels, resamples=300)
        inside += float(e.low) <= truth <= float(e.high)
    return inside / 300


def test_runs_of_their_own_for_every_task_are_strata_and_covered() -> None:
    random, inside = np.random.default_rng(10), 0
    means, labels = np.repeat([0.0, 1.0, 2.0, 5.0], 10), np.repeat(np.arange(4), 10)
    for _ in range(300):
        scores = random.normal(means, 0.3)[:, None]
        e = stratified(scores, lambda s: s.mean(axis=(-1, -2)), labels, resamples=300)
        inside += float(e.low) <= 2.0 <= float(e.high)
        blind = stratified(scores, lambda s: s.mean(axis=(-1, -2)), resamples=300)
        assert blind.high - blind.low > 3 * (e.high - e.low)
    assert 0.88 <= inside / 300 <= 0.98


def test_a_profile_is_the_share_of_scores_above_each_threshold() -> None:
    scores = np.array([[0.1, 0.5], [0.5, 0.9]])
    assert profile(scores, np.array([0.0, 0.1, 0.5, 0.9])).tolist() == [1.0, 0.75, 0.25, 0.0]
    e = stratified(scores, lambda s: profile(s, np.array([0.3, 0.7])), resamples=4000)
    assert e.value.tolist() == [0.75, 0.25]
    assert (e.low.tolist(), e.high.tolist()) == ([0.5, 0.0], [1.0, 0.5])


def test_probability_of_improvement_is_mann_and_whitneys_and_counts_ties_half() -> None:
    random = np.random.default_rng(6)
    a, b = random.integers(0, 9, (12, 3)) / 8, random.integers(0, 7, (9, 3)) / 8
    u = scipy_stats.mannwhitneyu(a, b, axis=0).statistic / (12 * 9)
    assert float(improvement(a, b).value) == pytest.approx(u.mean())
    assert float(improvement(a, a).value) == 0.5
    by_hand = improvement(np.array([[1.0], [2.0]]), np.array([[1.0], [0.0], [3.0]]))
    assert float(by_hand.value) == pytest.approx((0.5 + 1 + 0 + 1 + 1 + 0) / 6)


def test_the_interval_of_the_probability_of_improvement_holds_it_as_often_as_it_says() -> None:
    random, inside = np.random.default_rng(7), 0
    truth = scipy_stats.norm.cdf(0.5 / np.sqrt(2))
    for _ in range(300):
        e = improvement(random.normal(0.5, 1, (20, 1)), random.normal(0, 1, (20, 1)), resamples=400)
        inside += float(e.low) <= truth <= float(e.high)
    assert 0.90 <= inside / 300 <= 0.98


def test_order_variance_is_that_of_a_two_way_analysis() -> None:
    values = np.random.default_rng(1).normal(size=(6, 4)) + np.arange(4) * 0.5 + np.arange(6)[:, None]
    seed, order = np.divmod(np.arange(24), 4)
    data = DataFrame({"score": values.ravel(), "seed": seed, "order": order})
    table = anova_lm(ols("score ~ C(seed) + C(order)", data).fit())
    square = table["sum_sq"] / table["df"]
    v = order_variance(values)
    assert v.p == pytest.approx(table.loc["C(order)", "PR(>F)"])
    assert v.rest == pytest.approx(square["Residual"])
    assert v.order == pytest.approx((square["C(order)"] - square["Residual"]) / 6)
    assert v.seed == pytest.approx((square["C(seed)"] - square["Residual"]) / 4)


def test_order_variance_finds_the_components_it_was_made_of() -> None:
    random, found = np.random.default_rng(2), []
    for _ in range(400):
        values = random.normal(0, 0.3, (1, 5)) + random.normal(0, 0.5, (12, 1)) + random.normal(0, 0.2, (12, 5))
        v = order_variance(values)
        found.append([v.order, v.seed, v.rest, v.within])
    assert np.mean(found, axis=0) == pytest.approx([0.09, 0.25, 0.04, 0.09 + 0.04], rel=0.1)
    assert order_variance(np.ones((3, 2))).p == 1.0
    assert np.isnan(order_variance(np.ones((1, 2))).order)
