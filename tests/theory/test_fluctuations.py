"""Fluctuating utility and interference: exact moments, effective diffusion, frozen mixtures."""

from __future__ import annotations

import numpy as np
import pytest

from crystalrl.theory import CorrelationTimes, Crystallization, Fluctuation

BERNOULLI = Fluctuation(interference_variance=0.1 * 0.9)


def test_independent_interference_multiplies_the_stationary_variance_by_5_6() -> None:
    law = Crystallization()
    moments = law.independent_moments(BERNOULLI)
    assert np.sqrt(moments.variance) == pytest.approx(0.0072, abs=1e-4)
    assert moments.variance / law.stationary().variance == pytest.approx(5.6, abs=0.1)


def test_independent_moments_agree_with_simulation() -> None:
    law = Crystallization(sigma=0.02)
    noise = Fluctuation(utility_variance=0.04, interference_variance=0.09, covariance=-0.02)
    rng = np.random.default_rng(0)
    paths = 20_000
    c = np.full(paths, 0.95)
    # Two-point U and I with the given variances and covariance.
    for _ in range(400):
        first = rng.choice([-1.0, 1.0], paths)
        second = np.where(rng.random(paths) < 0.5 + 0.5 * (-0.02 / 0.06), first, -first)
        utility, interference = 0.5 + 0.2 * first, 0.1 + 0.3 * second
        drift = law.alpha * utility * (1 - c) - law.beta * interference * c
        c = c + drift + law.sigma * np.sqrt(np.maximum(c * (1 - c), 0)) * rng.standard_normal(paths)
    moments = law.independent_moments(noise)
    centred = (c - c.mean()) ** 2
    assert abs(c.mean() - moments.mean) < 3 * c.std() / np.sqrt(paths)
    assert abs(centred.mean() - moments.variance) < 3 * centred.std() / np.sqrt(paths) + 0.01 * moments.variance


def test_without_fluctuation_only_the_step_inflates_the_variance() -> None:
    law = Crystallization()
    inflated = law.independent_moments(Fluctuation()).variance / law.stationary().variance
    assert inflated == pytest.approx(1 / (1 - law.rates.rate / 2), rel=1e-3)
    assert law.independent_moments(Fluctuation(), dt=1e-4).variance == pytest.approx(
        law.stationary().variance, rel=1e-5
    )


def test_fluctuations_exceed_the_intrinsic_noise_by_the_known_amounts() -> None:
    law, step = Crystallization(), CorrelationTimes(0.5, 0.5)
    near_top = law.effective_diffusion(0.98, BERNOULLI, step) - law.effective_diffusion(0.98, Fluctuation(), step)
    assert near_top == pytest.approx(2.2e-6, rel=0.03)
    assert law.effective_diffusion(0.98, Fluctuation(), step) == pytest.approx(4.9e-7, rel=0.01)
    busy = Fluctuation(utility_variance=0.04)
    low = law.effective_diffusion(0.1, busy, step) - law.effective_diffusion(0.1, Fluctuation(), step)
    assert low == pytest.approx(8.1e-5, rel=0.01)


def test_short_correlation_gives_the_variance_of_the_effective_diffusion() -> None:
    law, time = Crystallization(), 2.0
    mean = law.stationary().mean
    total = law.effective_diffusion(mean, BERNOULLI, CorrelationTimes(0.0, time))
    predicted = total / (2 * law.rates.rate)
    rng = np.random.default_rng(1)
    paths, dt = 4000, 0.25
    c, interference = np.full(paths, mean), (rng.random(paths) < 0.1).astype(float)
    for _ in range(1600):
        renewed = rng.random(paths) < 1 - np.exp(-dt / time)
        interference = np.where(renewed, rng.random(paths) < 0.1, interference)
        drift = law.alpha * 0.5 * (1 - c) - law.beta * interference * c
        c = np.clip(c + dt * drift + law.sigma * np.sqrt(dt * c * (1 - c)) * rng.standard_normal(paths), 0, 1)
    assert c.var() == pytest.approx(predicted, rel=0.12)


def test_frozen_interference_puts_nine_tenths_of_the_mass_at_one() -> None:
    law = Crystallization()
    mixture = law.frozen([0.5, 0.5], [0.0, 1.0], [0.9, 0.1])
    assert mixture.atom(1.0) == pytest.approx(0.9)
    moments = mixture.moments()
    assert moments.variance / law.stationary().variance == pytest.approx(266, abs=1)
    assert mixture.cdf(1 - 1e-12, 1e5, 0.0) == pytest.approx(0.1)
    assert mixture.stationary_cdf(0.95) == pytest.approx(0.1)


def test_impossible_covariances_and_weights_are_refused() -> None:
    with pytest.raises(ValueError, match="covariance: wanted at most"):
        Fluctuation(0.01, 0.01, 0.02)
    with pytest.raises(ValueError, match="positive sum"):
        Crystallization().frozen([0.5], [0.1], [0.0])
