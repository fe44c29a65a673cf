"""Mean, variance and third moment against simulation and against their differential equations."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate

from crystalrl.theory import Crystallization
from crystalrl.theory.moments import third_central_moment
from crystalrl.theory.paper import paper_uniform_variance_bound, paper_variance_bound
from crystalrl.theory.rates import Rates

from .oracles import simulate


@pytest.mark.parametrize(
    ("law", "c0", "t"),
    [
        (Crystallization(interference=0.0), 0.0, 30.0),
        (Crystallization(utility=0.5, interference=1.0), 0.71, 40.0),
        (Crystallization(sigma=0.1, utility=0.1, interference=1.0), 0.3, 60.0),
    ],
)
def test_moments_agree_with_simulation_within_three_standard_errors(law: Crystallization, c0: float, t: float) -> None:
    c = simulate(law.rates, c0, t, steps=600, paths=20_000)
    centred = (c - c.mean()) ** 2
    assert abs(c.mean() - law.mean(t, c0)) < 3 * c.std() / np.sqrt(c.size)
    # Euler inflates the variance by λ·dt/2 at most; the steps are small enough to stay inside the noise.
    assert abs(centred.mean() - law.variance(t, c0)) < 3 * centred.std() / np.sqrt(c.size) + 0.002 * law.variance(t, c0)


@pytest.mark.parametrize(
    "rates", [Rates(0.025, 0.0005, 0.005), Rates(0.2, 0.1, 0.7), Rates(0.0, 0.0, 0.5), Rates(0.1, 0, 1)]
)
def test_first_three_moments_solve_their_equations(rates: Rates) -> None:
    def equations(_: float, y: np.ndarray) -> list[float]:
        m, v, w = y
        noise, rate = rates.noise, rates.rate
        return [
            rates.gain * (1 - m) - rates.loss * m,
            -(2 * rate + noise) * v + noise * m * (1 - m),
            -3 * (rate + noise) * w + 3 * noise * (1 - 2 * m) * v,
        ]

    law = Crystallization(alpha=rates.gain, utility=1, beta=rates.loss, interference=1, sigma=rates.sigma)
    for t in (0.5, 5.0, 60.0):
        exact = integrate.solve_ivp(equations, (0, t), [0.2, 0.0, 0.0], rtol=1e-11, atol=1e-16).y[:, -1]
        got = [law.mean(t, 0.2), law.variance(t, 0.2), third_central_moment(rates, t, 0.2)]
        np.testing.assert_allclose(got, exact, rtol=2e-6, atol=1e-13)


def test_the_printed_variance_bound_is_exceeded_twelvefold_at_the_defaults() -> None:
    law = Crystallization()
    ratio = law.variance(43.0, 0.0) / paper_variance_bound(law.rates, 43.0)
    assert ratio == pytest.approx(11.8, abs=0.05)


def test_the_printed_variance_bound_is_zero_without_interference_while_the_variance_is_not() -> None:
    law = Crystallization(interference=0.0)
    assert paper_variance_bound(law.rates, 30.0) == 0
    assert law.variance(30.0, 0.0) == pytest.approx(8.19e-5, rel=1e-3)


def test_the_printed_variance_bound_holds_when_melting_from_above() -> None:
    law = Crystallization(utility=0.5, interference=1.0)
    t = np.linspace(0.1, 400, 300)
    start = float(law.stationary().mean) + 0.05
    assert np.all(law.variance(t, start) <= paper_variance_bound(law.rates, t) * (1 + 1e-9))


def test_the_uniform_variance_bound_holds_from_known_starts_only() -> None:
    law = Crystallization(utility=0.5, interference=1.0)
    bound = paper_uniform_variance_bound(law.rates)
    t = np.linspace(0, 500, 400)
    assert all(np.all(law.variance(t, c0) <= bound) for c0 in np.linspace(0, 1, 21))
    spread_start = law.variance(t, 0.5, 0.25)
    assert t[np.argmax(spread_start <= bound)] == pytest.approx(144, abs=3)


def test_an_impossible_start_variance_is_refused() -> None:
    with pytest.raises(ValueError, match="at most c0"):
        Crystallization().variance(1.0, 0.1, 0.2)
