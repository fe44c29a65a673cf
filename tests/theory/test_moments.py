"""Mean, variance and third central moment against simulation and their differential equations."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate

from crystalrl.theory import Crystallization
from crystalrl.theory.moments import third_central_moment
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


def test_an_impossible_initial_variance_is_refused() -> None:
    with pytest.raises(ValueError, match="at most c0"):
        Crystallization().variance(1.0, 0.1, 0.2)
