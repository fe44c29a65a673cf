"""The stationary distribution, its boundaries, and the approach to it."""

from __future__ import annotations

import numpy as np
import pytest

from crystalrl.theory import Crystallization

from .oracles import simulate


def test_the_defaults_give_beta_2000_40() -> None:
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
def test_boundaries_are_classified_by_their_shape(law: Crystallization, lower: str, upper: str) -> None:
    limit = law.stationary()
    assert (limit.lower, limit.upper) == (lower, upper)


def test_an_end_is_hit_only_if_its_class_says_so() -> None:
    smooth = simulate(Crystallization(sigma=0.2, utility=0.9, interference=1.0, beta=0.05).rates, 0.5, 200, 4000, 2000)
    rough = simulate(Crystallization(sigma=0.2, utility=0.1, interference=1.0).rates, 0.5, 200, 4000, 2000)
    assert np.min(smooth) > 0
    assert np.mean(rough == 0) > 0.005


def test_the_spectral_gap_is_the_decay_rate_of_the_autocorrelation() -> None:
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
