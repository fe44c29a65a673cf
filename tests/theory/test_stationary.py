"""The limit law, its ends, its occupancy, and the way it is reached."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest

from crystalrl.theory import Crystallization, beta

from .oracles import simulate


def test_the_defaults_settle_into_beta_2000_40() -> None:
    law = Crystallization().stationary()
    assert law.shapes == pytest.approx((2000, 40))
    assert law.mean == pytest.approx(0.98039, abs=1e-5)
    assert np.sqrt(law.variance) == pytest.approx(0.0031, abs=5e-5)
    assert law.log10_cdf(0.7) == pytest.approx(-247.6, abs=0.05)
    assert Crystallization().occupancy().crystal == pytest.approx(1)


@pytest.mark.parametrize(
    ("law", "lower", "upper"),
    [
        (Crystallization(), "entrance", "entrance"),
        (Crystallization(interference=0.0), "entrance", "exit"),
        (Crystallization(utility=0.0), "exit", "entrance"),
        (Crystallization(sigma=0.05), "entrance", "regular"),
        (Crystallization(utility=2e-4, interference=1.0), "regular", "entrance"),
        (Crystallization(sigma=0.0), "unreachable", "unreachable"),
    ],
)
def test_ends_are_classed_by_their_shape(law: Crystallization, lower: str, upper: str) -> None:
    limit = law.stationary()
    assert (limit.lower, limit.upper) == (lower, upper)


def test_an_end_is_hit_exactly_when_its_class_says_so() -> None:
    smooth = simulate(Crystallization(sigma=0.2, utility=0.9, interference=1.0, beta=0.05).rates, 0.5, 200, 4000, 2000)
    rough = simulate(Crystallization(sigma=0.2, utility=0.1, interference=1.0).rates, 0.5, 200, 4000, 2000)
    assert np.min(smooth) > 0
    assert np.mean(rough == 0) > 0.005


@pytest.mark.parametrize("shapes", [(0.05, 2000), (2000, 0.05), (2000, 40), (200, 400), (3, 1e5), (5e6, 2e5)])
@pytest.mark.parametrize("z", [-60.0, -8.0, -0.5])
def test_log_tails_agree_with_mpmath(shapes: tuple[float, float], z: float) -> None:
    p, q = shapes
    deviation = np.sqrt(p * q / (p + q) ** 2 / (p + q + 1))
    x = p / (p + q) + z * deviation
    if x <= 0:
        x = p / (p + q) * 1e-3
    with mpmath.workdps(40):
        if p + q < 1e5:
            exact = float(mpmath.log(mpmath.betainc(p, q, 0, mpmath.mpf(float(x)), regularized=True)))
        else:
            front = p * mpmath.log(x) + q * mpmath.log1p(-x) - mpmath.log(p) - mpmath.log(mpmath.beta(p, q))
            terms, ratio = mpmath.mpf(1), mpmath.mpf(1)
            for n in range(200_000):
                ratio *= (p + q + n) * mpmath.mpf(float(x)) / (p + 1 + n)
                terms += ratio
                if ratio < terms * mpmath.mpf(10) ** -18:
                    break
            exact = float(front + mpmath.log(terms))
    assert beta.log_cdf(np.array(x), p, q) == pytest.approx(exact, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("shapes", [(0.05, 0.05), (1e-3, 50.0), (2000.0, 40.0), (5e10, 1e9), (2e12, 3.0)])
def test_the_beta_weight_agrees_with_mpmath_at_any_size(shapes: tuple[float, float]) -> None:
    p, q = shapes
    deviation = np.sqrt(p / (p + q) * (q / (p + q)) / (p + q + 1))
    for x in np.clip(p / (p + q) + deviation * np.array([-3.0, 0.0, 2.0]), 1e-6, 1 - 1e-13):
        with mpmath.workdps(50):
            big = mpmath.mpf(float(x))
            log_beta = mpmath.loggamma(p) + mpmath.loggamma(q) - mpmath.loggamma(mpmath.mpf(p) + mpmath.mpf(q))
            exact = float(p * mpmath.log(big) + q * mpmath.log(1 - big) - log_beta)
        assert beta.log_weight(np.array(x), p, q) == pytest.approx(exact, abs=2e-4 if p > 1e9 else 1e-9)


def test_the_spectral_gap_is_the_decay_of_the_autocorrelation() -> None:
    law = Crystallization(sigma=0.2, alpha=0.1, utility=0.8, beta=0.06, interference=1.0)
    rng = np.random.default_rng(3)
    start = rng.beta(*law.stationary().shapes, 60_000)
    lag, steps = 6.0, 240
    dt, c = lag / steps, start.copy()
    for _ in range(steps):
        noise = law.sigma * np.sqrt(dt * c * (1 - c)) * rng.standard_normal(c.size)
        c = np.clip(c + dt * (law.rates.gain * (1 - c) - law.rates.loss * c) + noise, 0, 1)
    gap = -np.log(np.corrcoef(start, c)[0, 1]) / lag
    assert gap == pytest.approx(law.rates.rate, rel=0.02)
    assert law.rates.eigenvalue(1) == law.rates.rate


def test_the_start_is_forgotten_only_after_the_cut_off() -> None:
    law = Crystallization()
    relaxation = law.relaxation(0.0)
    assert relaxation.amplitude == pytest.approx(319, abs=1)
    assert relaxation.mixing_time == pytest.approx(226, abs=0.5)
    centre = law.stationary().mean
    assert law.cdf(centre, 150.0, 0.0) > 0.999
    assert law.cdf(centre, 400.0, 0.0) == pytest.approx(float(law.stationary().cdf(centre)), abs=0.01)


def test_the_gibbs_potential_gives_the_stationary_density_and_the_langevin_one_gives_the_drift() -> None:
    law = Crystallization(sigma=0.1)
    c = np.linspace(0.05, 0.95, 19)
    potential = law.potential(c)
    log_density = np.log(law.stationary().pdf(c))
    np.testing.assert_allclose(np.diff(log_density), -np.diff(potential.gibbs), rtol=1e-9)
    width = 1e-6
    slope = (law.potential(c + width).langevin - law.potential(c - width).langevin) / (2 * width)
    drift = -(law.sigma**2) * c * (1 - c) / 2 * slope
    np.testing.assert_allclose(drift, law.rates.gain * (1 - c) - law.rates.loss * c, rtol=1e-6, atol=1e-12)
    assert np.argmin(potential.quasi) == np.argmin(np.abs(c - law.stationary().mean))


def test_the_quasi_potential_needs_no_noise() -> None:
    law = Crystallization(sigma=0.0, interference=1.0)
    assert law.potential(law.stationary().mean).quasi == pytest.approx(0, abs=1e-15)
    assert law.potential(0.5).quasi > 0
