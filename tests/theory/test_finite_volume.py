"""The Fokker–Planck solver: agreement with the series, time-varying rates, atoms, errors."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate

from crystalrl.theory import Crystallization, Options, transient
from crystalrl.theory.finite_volume import solve
from crystalrl.theory.path import Schedule
from crystalrl.theory.rates import Rates

from .oracles import rates


@pytest.mark.parametrize(
    ("law", "c0", "times", "window"),
    [
        (rates(0.05, 0.05), 0.3, [5.0, 100.0, 1e5], (0.0, 1.0)),
        (rates(0.05, 2.0), 0.3, [5.0, 100.0], (0.0, 1.0)),
        (rates(1.0, 1.0), 0.3, [5.0, 100.0], (0.0, 1.0)),
        (rates(0.5, 30.0), 0.3, [5.0, 30.0, 1000.0], (0.0, 1.0)),
        (rates(20.0, 50.0), 0.3, [5.0, 100.0], (0.0, 1.0)),
        (rates(200.0, 400.0, 0.005), 0.71, [1000.0, 5000.0], (0.2, 0.5)),
        (rates(2000.0, 40.0, 0.005), 0.0, [400.0], (0.95, 1.0)),
        (Rates(0.0, 0.002, 0.1), 0.3, [30.0, 400.0], (0.0, 1.0)),
        (Rates(0.002, 0.0, 0.1), 0.3, [30.0, 400.0], (0.0, 1.0)),
        (Rates(0.0, 0.0, 0.1), 0.3, [30.0, 400.0], (0.0, 1.0)),
    ],
)
def test_finite_volumes_agree_with_the_series(
    law: Rates, c0: float, times: list[float], window: tuple[float, float]
) -> None:
    x = np.linspace(*window, 41)
    exact = transient.cdf(law, x, np.array(times)[:, None], c0)
    assert np.all(exact.error < 1e-8)
    solution = solve(Schedule.constant(law), c0, times, Options(cells=2000))
    np.testing.assert_allclose(solution.cdf(x), exact.value, atol=1e-4)


def test_mass_is_conserved_and_moments_follow_their_equations_when_utility_and_interference_vary() -> None:
    law = Crystallization(sigma=0.05)

    def utility(t: float) -> float:
        return 0.5 + 0.4 * np.sin(t / 7)

    def interference(t: float) -> float:
        return float(t > 40)

    def equations(t: float, y: np.ndarray) -> list[float]:
        now = Crystallization(sigma=0.05, utility=utility(t), interference=interference(t)).rates
        m, v = y
        return [now.gain * (1 - m) - now.loss * m, -(2 * now.rate + now.noise) * v + now.noise * m * (1 - m)]

    solution = law.evolve([20.0, 60.0, 90.0], 0.2, utility, interference, Options(cells=2000, fineness=2))
    np.testing.assert_allclose(solution.masses.sum(axis=1) + solution.ends.sum(axis=1), 1, atol=1e-12)
    path = integrate.solve_ivp(equations, (0, 90), [0.2, 0.0], t_eval=[20.0, 60.0, 90.0], rtol=1e-8, max_step=0.5).y
    np.testing.assert_allclose(solution.mean(), path[0], atol=2e-4)
    np.testing.assert_allclose(solution.variance(), path[1], rtol=2e-2)


def test_a_grid_that_cannot_resolve_sigma_is_refused_with_the_number_of_cells_needed() -> None:
    with pytest.raises(ValueError, match=r"2000 cells cannot resolve sigma = 0\.001.*cells would do"):
        Crystallization(sigma=0.001).evolve([200.0], 0.0)


def test_without_noise_there_is_no_density_to_solve_for() -> None:
    with pytest.raises(ValueError, match="sigma: wanted a number > 0"):
        Crystallization(sigma=0.0).evolve([1.0], 0.2)
