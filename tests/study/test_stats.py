"""Statistics against scipy and against simulation."""

import gc

import numpy as np
import pytest
from scipy import stats as scipy_stats

from crystalrl.study.stats import cohen, hedges, holm, summarise, welch


def test_the_bootstrap_interval_holds_the_true_mean_about_as_often_as_it_says() -> None:
    random = np.random.default_rng(7)
    inside = 0
    for _ in range(400):
        summary = summarise(random.beta(2, 5, size=32), resamples=500)
        inside += summary.low <= 2 / 7 <= summary.high
    assert 0.90 <= inside / 400 <= 0.98


def test_a_summary_is_the_same_every_time_and_tight_for_equal_numbers() -> None:
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


def test_welch_without_spread_says_whether_the_means_agree() -> None:
    same, other = np.ones(4), np.zeros(4)
    assert (welch(same, same), welch(same, other)) == (1.0, 0.0)
    assert np.isnan(welch(np.ones(1), other))


def test_holm_multiplies_by_what_is_left_and_never_falls() -> None:
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.5, 0.9]) == pytest.approx([1.0, 1.0])
    adjusted = holm([0.01, float("nan"), 0.02])
    assert adjusted[0] == pytest.approx(0.02)
    assert adjusted[2] == pytest.approx(0.02)
    assert np.isnan(adjusted[1])


def test_holm_keeps_the_rate_of_any_false_alarm() -> None:
    p = np.random.default_rng(3).random((2000, 8))
    gc.freeze()  # statsmodels collects garbage at every call
    alarms = np.mean([min(holm(list(row))) < 0.05 for row in p])
    gc.unfreeze()
    assert 0.035 <= alarms <= 0.065


def test_hedges_is_the_difference_in_pooled_deviations_corrected_for_size() -> None:
    a, b = np.array([1.0, 2.0, 3.0]), np.array([0.0, 1.0, 2.0])
    assert cohen(a, b).size == pytest.approx(1.0)
    assert hedges(a, b).size == pytest.approx(1.0 * (1 - 3 / (4 * 4 - 1)))
    assert hedges(np.ones(3), np.ones(3)).size == 0.0
    assert hedges(np.ones(3), np.zeros(3)).size == np.inf
    assert np.isnan(cohen(np.ones(1), b).low)


def test_the_interval_of_an_effect_puts_half_of_what_is_left_out_at_either_end() -> None:
    """The definition: under the lower end, a t this large has probability 2.5 %; under the upper, one this small."""
    a, b = np.random.default_rng(2).normal(1.0, 1.0, 9), np.random.default_rng(3).normal(0.0, 1.0, 12)
    d = cohen(a, b)
    root, freedom = np.sqrt(9 * 12 / 21), 19
    assert scipy_stats.nct.sf(d.size * root, freedom, d.low * root) == pytest.approx(0.025)
    assert scipy_stats.nct.cdf(d.size * root, freedom, d.high * root) == pytest.approx(0.025)
    g = hedges(a, b)
    assert (g.low / d.low, g.high / d.high) == pytest.approx((g.size / d.size, g.size / d.size))


def test_an_effect_interval_is_mirrored_when_the_samples_are_and_stays_finite_far_out() -> None:
    random = np.random.default_rng(4)
    a, b = random.normal(0.0, 1.0, 8), random.normal(1.0, 2.0, 6)
    one, other = cohen(a, b), cohen(b, a)
    assert (one.low, one.high) == pytest.approx((-other.high, -other.low), rel=1e-6)
    for shift in (30.0, 600.0, 1e5):  # the last two on either side of the closed form
        far = cohen(a + shift, a)
        ratio = np.array([far.low, far.high]) / far.size
        assert ratio == pytest.approx(np.sqrt(scipy_stats.chi2.ppf([0.025, 0.975], 14) / 14), rel=0.01)


@pytest.mark.parametrize(("effect", "sizes"), [(0.0, (5, 5)), (0.8, (10, 10)), (2.0, (6, 20))])
def test_intervals_of_cohens_d_hold_the_true_effect_as_often_as_they_say(effect: float, sizes: tuple[int, int]) -> None:
    random = np.random.default_rng(11)
    inside = 0
    for _ in range(1000):
        d = cohen(random.normal(effect, 1.0, sizes[0]), random.normal(0.0, 1.0, sizes[1]))
        inside += d.low <= effect <= d.high
    assert 0.93 <= inside / 1000 <= 0.97


def test_hedges_is_without_the_bias_that_cohens_d_has() -> None:
    random = np.random.default_rng(12)
    pairs = [(random.normal(1.0, 1.0, 4), random.normal(0.0, 1.0, 4)) for _ in range(400)]
    assert np.mean([hedges(a, b).size for a, b in pairs]) == pytest.approx(1.0, abs=0.15)
    assert np.mean([cohen(a, b).size for a, b in pairs]) > 1.1
