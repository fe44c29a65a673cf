"""Statistics by hand, against SciPy and statsmodels, and by simulation."""

import numpy as np
import pytest
from pandas import DataFrame
from scipy import stats as scipy_stats
from statsmodels.formula.api import ols
from statsmodels.stats.anova import anova_lm

from benchmarks.coverage import SEEDS, STATISTICS, row
from crystalrl.study.stats import (
    cohen,
    hedges,
    holm,
    improvement,
    interquartile_mean,
    mean_band,
    order_variance,
    profile,
    resampled,
    stratified,
    summarise,
    welch,
    welch_interval,
    widened,
)


@pytest.mark.parametrize(("seeds", "least"), [(5, 0.88), (10, 0.92), (32, 0.92)])
def test_the_bootstrap_interval_covers_the_true_mean_at_about_its_level_with_few_seeds_too(
    seeds: int, least: float
) -> None:
    """The plain percentile interval covers 82 % with 5 seeds, and 89 % with 10."""
    random = np.random.default_rng(7)
    inside = 0
    for _ in range(400):
        summary = summarise(random.beta(2, 5, size=seeds), resamples=1000)
        inside += summary.low <= 2 / 7 <= summary.high
    assert least <= inside / 400 <= 0.98


def test_a_summary_is_deterministic_and_has_no_width_for_equal_numbers() -> None:
    sample = np.random.default_rng(0).random(10)
    assert summarise(sample) == summarise(sample)
    constant = summarise(np.full(5, 0.25))
    assert (constant.low, constant.mean, constant.high, constant.deviation) == (0.25, 0.25, 0.25, 0.0)
    with pytest.raises(ValueError, match="at least one"):
        summarise(np.array([]))


@pytest.mark.parametrize("sizes", [(2, 3), (16, 32), (32, 32)])
def test_welch_is_scipys(sizes: tuple[int, int]) -> None:
    random = np.random.default_rng(1)
    a, b = random.normal(0.0, 1.0, sizes[0]), random.normal(0.7, 3.0, sizes[1])
    assert welch(a, b) == pytest.approx(scipy_stats.ttest_ind(a, b, equal_var=False).pvalue)


def test_the_interval_of_a_difference_is_the_one_that_goes_with_welchs_test() -> None:
    random = np.random.default_rng(1)
    a, b = random.normal(0.0, 1.0, 9), random.normal(0.7, 3.0, 14)
    expected = scipy_stats.ttest_ind(a, b, equal_var=False).confidence_interval(0.95)
    assert welch_interval(a, b) == pytest.approx((expected.low, expected.high))
    assert welch_interval(np.ones(3), np.zeros(3)) == (1.0, 1.0)
    assert np.isnan(welch_interval(a, b[:1])).all()


def test_the_band_of_many_means_is_the_interval_of_each() -> None:
    values = np.random.default_rng(0).random((12, 3, 2))
    values[:, 2, 1] = np.nan
    band = mean_band(values)
    np.testing.assert_array_equal(band.value, values.mean(axis=0))
    one = stratified(values[:, 0, :1], lambda scores: scores.mean(axis=(-2, -1)), resamples=1000)
    assert (band.low[0, 0], band.high[0, 0]) == pytest.approx((float(one.low), float(one.high)))
    assert np.isnan([band.low[2, 1], band.high[2, 1]]).all()


def test_welch_without_variance_tells_whether_the_means_are_equal() -> None:
    same, other = np.ones(4), np.zeros(4)
    assert (welch(same, same), welch(same, other)) == (1.0, 0.0)
    assert np.isnan(welch(np.ones(1), other))


def test_holm_multiplies_by_the_remaining_count_and_is_monotone() -> None:
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.5, 0.9]) == pytest.approx([1.0, 1.0])
    adjusted = holm([0.01, float("nan"), 0.02])
    assert adjusted[0] == pytest.approx(0.02)
    assert adjusted[2] == pytest.approx(0.02)
    assert np.isnan(adjusted[1])
    assert holm([]) == []


def test_holm_keeps_the_familywise_error_rate() -> None:
    p = np.random.default_rng(3).random((2000, 8))
    alarms = np.mean([min(holm(list(row))) < 0.05 for row in p])
    assert 0.035 <= alarms <= 0.065


def test_hedges_is_the_difference_in_pooled_deviations_corrected_for_sample_size() -> None:
    a, b = np.array([1.0, 2.0, 3.0]), np.array([0.0, 1.0, 2.0])
    assert cohen(a, b).size == pytest.approx(1.0)
    assert hedges(a, b).size == pytest.approx(1.0 * (1 - 3 / (4 * 4 - 1)))
    assert hedges(np.ones(3), np.ones(3)).size == 0.0
    assert hedges(np.ones(3), np.zeros(3)).size == np.inf
    assert np.isnan(cohen(np.ones(1), b).low)


def test_the_interval_of_an_effect_leaves_out_equal_probability_at_both_ends() -> None:
    """By definition: at the lower end, a t at least this large has probability 2.5 %; at the upper, one this small."""
    a, b = np.random.default_rng(2).normal(1.0, 1.0, 9), np.random.default_rng(3).normal(0.0, 1.0, 12)
    d = cohen(a, b)
    root, freedom = np.sqrt(9 * 12 / 21), 19
    assert scipy_stats.nct.sf(d.size * root, freedom, d.low * root) == pytest.approx(0.025)
    assert scipy_stats.nct.cdf(d.size * root, freedom, d.high * root) == pytest.approx(0.025)
    g = hedges(a, b)
    assert (g.low / d.low, g.high / d.high) == pytest.approx((g.size / d.size, g.size / d.size))


def test_an_effect_interval_is_antisymmetric_in_the_samples_and_finite_for_large_effects() -> None:
    random = np.random.default_rng(4)
    a, b = random.normal(0.0, 1.0, 8), random.normal(1.0, 2.0, 6)
    one, other = cohen(a, b), cohen(b, a)
    assert (one.low, one.high) == pytest.approx((-other.high, -other.low), rel=1e-6)
    for shift in (30.0, 600.0, 1e5):  # the last two on either side of the closed form
        far = cohen(a + shift, a)
        ratio = np.array([far.low, far.high]) / far.size
        assert ratio == pytest.approx(np.sqrt(scipy_stats.chi2.ppf([0.025, 0.975], 14) / 14), rel=0.01)


@pytest.mark.parametrize(("effect", "sizes"), [(0.0, (5, 5)), (0.8, (10, 10)), (2.0, (6, 20))])
def test_intervals_of_cohens_d_cover_the_true_effect_at_their_level(effect: float, sizes: tuple[int, int]) -> None:
    random = np.random.default_rng(11)
    inside = 0
    for _ in range(1000):
        d = cohen(random.normal(effect, 1.0, sizes[0]), random.normal(0.0, 1.0, sizes[1]))
        inside += d.low <= effect <= d.high
    assert 0.93 <= inside / 1000 <= 0.97


def test_hedges_removes_the_bias_of_cohens_d() -> None:
    random = np.random.default_rng(12)
    pairs = [(random.normal(1.0, 1.0, 4), random.normal(0.0, 1.0, 4)) for _ in range(400)]
    assert np.mean([hedges(a, b).size for a, b in pairs]) == pytest.approx(1.0, abs=0.15)
    assert np.mean([cohen(a, b).size for a, b in pairs]) > 1.1


def test_the_interquartile_mean_leaves_out_a_quarter_at_both_ends() -> None:
    scores = np.array([[0.0, 100.0, 3.0, 5.0], [4.0, 2.0, -50.0, 6.0]])
    assert interquartile_mean(scores) == pytest.approx((2 + 3 + 4 + 5) / 4)
    assert interquartile_mean(np.stack([scores, scores + 1])) == pytest.approx([3.5, 4.5])


def test_strata_are_resampled_separately_and_keep_their_sizes() -> None:
    strata = np.array([1, 0, 1, 2, 0, 0])
    drawn = resampled(6, strata, 3000)
    assert (strata[drawn] == strata).all()
    for place in range(6):
        mine = np.flatnonzero(strata == strata[place])
        shares = [(drawn[:, place] == one).mean() for one in mine]
        assert shares == pytest.approx([1 / len(mine)] * len(mine), abs=0.04)
    with pytest.raises(ValueError, match="wanted one label for each of 6"):
        resampled(6, strata[:5], 10)


def test_the_bootstrap_of_a_mean_is_scipys() -> None:
    scores = np.random.default_rng(5).beta(2, 5, size=(24, 3))
    ours = stratified(scores, lambda s: s.mean(axis=(-1, -2)), resamples=20_000)
    low, high = widened(24)
    assert low + high == pytest.approx(1.0)
    theirs = scipy_stats.bootstrap(
        (scores.mean(axis=1),), np.mean, confidence_level=high - low, method="percentile", rng=1
    ).confidence_interval
    assert (float(ours.low), float(ours.high)) == pytest.approx((theirs.low, theirs.high), abs=0.003)


def test_for_normal_scores_the_interval_of_a_mean_is_about_students() -> None:
    sample = scipy_stats.norm.ppf((np.arange(40) + 0.5) / 40)
    s = summarise(sample)
    theirs = scipy_stats.t.interval(0.95, 39, 0.0, sample.std(ddof=1) / np.sqrt(40))
    assert (s.low, s.high) == pytest.approx(theirs, rel=0.03)


def test_probabilities_are_widened_more_for_fewer_learners_and_more_strata() -> None:
    ends = [widened(count)[0] for count in (2, 5, 10, 32, 10**6)]
    assert ends == sorted(ends)
    assert ends[0] < 1e-6
    assert ends[-1] == pytest.approx(0.025, abs=1e-4)
    assert widened(12, strata=3)[0] < widened(12)[0]
    assert widened(1) == widened(4, strata=4) == pytest.approx((0.025, 0.975))


@pytest.mark.parametrize("count", [1, 2, 5])
@pytest.mark.parametrize("value", [0.0, 0.25, 1.0])
def test_equal_scores_give_intervals_without_nan_and_without_warnings(count: int, value: float) -> None:
    scores = np.full((count, 3), value)
    s, e = summarise(scores[:, 0]), stratified(scores, interquartile_mean, resamples=50)
    assert [s.low, s.high, float(e.low), float(e.high)] == pytest.approx([value] * 4)
    tie = improvement(scores, scores)
    assert 0 <= float(tie.low) < float(tie.value) == 0.5 < float(tie.high) <= 1
    above = improvement(scores + 1, scores)
    assert 0 < float(above.low) < float(above.value) == float(above.high) == 1.0
    below = improvement(scores, scores + 1)
    assert (float(below.value), float(below.low)) == (0.0, 0.0)
    assert float(below.high) == pytest.approx(1 - float(above.low))


@pytest.mark.slow
@pytest.mark.parametrize("seeds", SEEDS)
@pytest.mark.parametrize(("statistic", "law"), [(s, law) for s, (_, laws) in STATISTICS.items() for law in laws])
def test_intervals_cover_the_true_value_about_as_often_as_they_state(statistic: str, law: str, seeds: int) -> None:
    """If all five of five learners succeed, no interval knows that some fail: 95 % cannot be reached everywhere."""
    covered = row(statistic, law, seeds, trials=300)["coverage"]
    least = {5: 87, 10: 91, 32: 91}[seeds]
    assert covered["used here"] >= max(least, covered["percentile"] - 1)


def test_the_interval_of_the_iqm_covers_its_true_value_if_whole_learners_are_resampled() -> None:
    """Tasks as strata, resampled independently, give too short an interval if one learner learnt them all."""
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


def test_with_separate_runs_for_every_task_strata_give_intervals_that_cover() -> None:
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


def test_the_interval_of_the_probability_of_improvement_covers_it_at_its_level() -> None:
    random, inside = np.random.default_rng(7), 0
    truth = scipy_stats.norm.cdf(0.5 / np.sqrt(2))
    for _ in range(300):
        e = improvement(random.normal(0.5, 1, (20, 1)), random.normal(0, 1, (20, 1)))
        inside += float(e.low) <= truth <= float(e.high)
    assert 0.92 <= inside / 300 <= 0.98


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


def test_order_variance_recovers_the_simulated_components() -> None:
    random, found = np.random.default_rng(2), []
    for _ in range(400):
        values = random.normal(0, 0.3, (1, 5)) + random.normal(0, 0.5, (12, 1)) + random.normal(0, 0.2, (12, 5))
        v = order_variance(values)
        found.append([v.order, v.seed, v.rest, v.within])
    assert np.mean(found, axis=0) == pytest.approx([0.09, 0.25, 0.04, 0.09 + 0.04], rel=0.1)
    assert order_variance(np.ones((3, 2))).p == 1.0
    assert np.isnan(order_variance(np.ones((1, 2))).order)
