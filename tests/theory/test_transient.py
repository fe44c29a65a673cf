"""The distribution of c(t): bounds and error estimates, limits, symmetry, moments, atoms."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, special

from crystalrl.theory import Crystallization, moments, transient
from crystalrl.theory.rates import Rates

from .oracles import rates


def test_far_tails_return_a_bound_and_say_so() -> None:
    answer = Crystallization().cdf([0.5, 0.9999999], 100.0, 0.0, full_output=True)
    assert answer.method.tolist() == ["bound", "bound"]
    assert answer.value[0] < 1e-8
    assert answer.value[1] > 1 - 1e-8
    assert np.all(answer.error <= 1e-8)


def test_the_error_estimate_of_the_matched_beta_covers_its_distance_from_the_series() -> None:
    rng = np.random.default_rng(1)
    seen = 0
    for _ in range(300):
        law, c0 = rates(*10 ** rng.uniform(-1.3, 3.3, 2)), float(rng.choice([0.0, rng.uniform()]))
        t = 10 ** rng.uniform(-2, 0.9) / law.rate
        spread = np.sqrt(moments.variance(law, t, c0))
        x = np.clip(moments.mean(law, t, c0) + spread * np.linspace(-5, 5, 41), 1e-9, 1 - 1e-9)
        exact = transient.cdf(law, x, t, c0)
        if not np.all(exact.method == "series"):
            continue
        seen += 1
        p, q = transient.matched_shapes(law, np.array([t]), np.array([c0]))
        off = np.abs(special.betainc(p, q, x) - exact.value).max()
        assert off <= 1.2 * transient.matched_error(law, np.array([t]), np.array([c0]))[0]
    assert seen > 100


UNIT = st.floats(0.0, 1.0)
RATE = st.floats(1e-4, 1.0)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(gain=RATE, loss=RATE, sigma=st.floats(1e-3, 1.0), c0=UNIT, t=st.floats(1e-3, 1e6))
def test_the_cdf_is_monotone_and_a_probability(gain: float, loss: float, sigma: float, c0: float, t: float) -> None:
    answer = transient.cdf(Rates(gain, loss, sigma), np.linspace(0, 1, 101), t, c0)
    assert np.all((answer.value >= 0) & (answer.value <= 1))
    assert np.all(np.diff(answer.value) >= -2 * np.maximum(answer.error[1:], answer.error[:-1]) - 1e-12)
    assert answer.value[-1] == 1


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    gain=st.one_of(st.just(0.0), RATE),
    loss=st.one_of(st.just(0.0), RATE),
    sigma=st.floats(1e-3, 1.0),
    c0=UNIT,
    t=st.floats(1e-2, 1e4),
    x=st.floats(0.01, 0.99),
)
def test_mirroring_c_exchanges_gain_and_loss(
    gain: float, loss: float, sigma: float, c0: float, t: float, x: float
) -> None:
    here, there = Rates(gain, loss, sigma), Rates(loss, gain, sigma)
    direct, mirrored = transient.cdf(here, x, t, c0), transient.cdf(there, 1 - x, t, 1 - c0)
    if direct.method == "point":
        return
    slope = transient.pdf(here, x, t, c0).value * 1e-15
    assert abs(direct.value + mirrored.value - 1) <= 2 * (direct.error + mirrored.error) + slope + 1e-9


@settings(max_examples=15, deadline=None, derandomize=True)
@given(gain=RATE, loss=RATE, sigma=st.floats(0.01, 1.0), c0=st.floats(0.05, 0.95), t=st.floats(0.1, 1e3))
def test_the_cdf_has_the_exact_mean_and_variance(gain: float, loss: float, sigma: float, c0: float, t: float) -> None:
    law = Rates(gain, loss, sigma)
    node, weight = np.polynomial.legendre.leggauss(16)
    centre, spread = float(moments.mean(law, t, c0)), float(np.sqrt(moments.variance(law, t, c0)))
    fine = centre + spread * np.linspace(-9, 9, 73)
    edges = np.unique(
        np.concatenate(
            [
                np.linspace(0, 1, 41),
                fine[(fine > 0) & (fine < 1)],
                np.logspace(-14, -2, 40),
                1 - np.logspace(-14, -2, 40),
            ]
        )
    )
    half, middle = np.diff(edges) / 2, (edges[1:] + edges[:-1]) / 2
    x = (middle[:, None] + half[:, None] * node).ravel()
    dx = (half[:, None] * weight).ravel()
    answer = transient.cdf(law, x, t, c0)
    mean = 1 - np.sum(dx * answer.value)
    second = 1 - 2 * np.sum(dx * x * answer.value)
    slack = 3 * float(np.max(answer.error)) * spread + 1e-6
    assert abs(mean - centre) < slack
    assert abs(second - mean**2 - spread**2) < slack


def test_the_distribution_goes_from_the_start_to_the_stationary_one() -> None:
    law = Crystallization(sigma=0.05, utility=0.3, interference=1.0)
    x = np.linspace(0.02, 0.98, 33)
    np.testing.assert_array_equal(law.cdf(x, 0.0, 0.4), x >= 0.4)
    assert np.all(np.abs(law.cdf(x, 1e-7, 0.4) - (x >= 0.4)) < 1e-6)
    np.testing.assert_allclose(law.cdf(x, 1e9, 0.4), law.stationary().cdf(x), atol=1e-13)


def test_without_interference_the_atom_at_one_equals_the_exact_sum() -> None:
    # 50-digit sum of the hypoexponential law of the hitting time Σ Exp(λ_m): .32922051…
    law = Crystallization(interference=0.0)
    assert 1 - law.cdf(1 - 1e-15, 300.0, 0.0) == pytest.approx(0.3292205133689773, abs=1e-12)
    assert law.cdf(1.0, 300.0, 0.0) == 1


@pytest.mark.parametrize(
    "rates_", [Rates(0.025, 0, 0.05), Rates(0, 0.02, 0.1), Rates(0, 0, 0.1), Rates(0.1, 0.05, 0.3)]
)
def test_the_density_integrates_to_the_mass_outside_the_atoms(rates_: Rates) -> None:
    t, c0 = 40.0, 0.4
    low = transient.cdf(rates_, 0.0, t, c0).value
    high = transient.cdf(rates_, 1 - 1e-13, t, c0).value
    inside, _ = integrate.quad(lambda x: float(transient.pdf(rates_, x, t, c0).value), 1e-12, 1 - 1e-12, limit=200)
    assert inside == pytest.approx(high - low, abs=2e-6)


def test_without_drift_c_ends_at_one_with_probability_c0() -> None:
    law = Crystallization(utility=0.0, interference=0.0, sigma=0.1)
    assert law.cdf(0.5, 1e6, 0.3) == pytest.approx(0.7, abs=1e-12)
    with pytest.raises(ValueError, match=r"c0: wanted a number in .*, since the limit depends on it"):
        law.stationary()
    assert law.stationary(0.3).atoms == ((0.0, 0.7), (1.0, 0.3))
