"""The constants of the law: each against what it means in the equation."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.polynomial import Polynomial
from scipy import stats

from crystalrl.theory.rates import SMALLEST_SIGMA, Rates, non_negative, unit

RATES = Rates(0.3, 0.1, 0.4)
C = Polynomial([0.0, 1.0])


def drift(rates: Rates) -> Polynomial:
    return rates.gain * (1 - C) - rates.loss * C


@pytest.mark.parametrize("n", range(1, 6))
def test_an_eigenvalue_is_the_factor_of_the_highest_power_under_the_generator(n: int) -> None:
    """The generator f ↦ drift·f′ + σ²c(1−c)f″/2 maps polynomials of degree n to polynomials of degree n."""
    power = C**n
    mapped = drift(RATES) * power.deriv() + RATES.noise / 2 * C * (1 - C) * power.deriv(2)
    assert RATES.eigenvalue(n) == pytest.approx(-mapped.coef[n])


def test_the_target_is_where_the_drift_vanishes_and_the_first_eigenvalue_its_slope() -> None:
    assert drift(RATES)(RATES.target) == pytest.approx(0)
    assert drift(RATES).deriv()(0.5) == pytest.approx(-RATES.rate)
    np.testing.assert_allclose(RATES.eigenvalue([0, 1]), [0, RATES.rate])


def test_no_probability_flows_under_the_beta_density_with_these_shapes() -> None:
    c, width = np.linspace(0.1, 0.9, 9), 1e-6
    density = stats.beta(*RATES.shapes).pdf

    def spread(x: np.ndarray) -> np.ndarray:
        return RATES.noise * x * (1 - x) * density(x) / 2

    flow = drift(RATES)(c) * density(c) - (spread(c + width) - spread(c - width)) / (2 * width)
    np.testing.assert_allclose(flow, 0, atol=1e-8)


def test_the_mirrored_rates_are_those_of_one_minus_c() -> None:
    c = np.linspace(0, 1, 5)
    np.testing.assert_allclose(drift(RATES.mirrored)(1 - c), -drift(RATES)(c), atol=1e-15)
    assert RATES.mirrored.mirrored == RATES


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ((-0.1, 0.1, 0.1), "gain: wanted a finite number ≥ 0, got -0.1"),
        ((0.1, np.inf, 0.1), "loss: wanted a finite number ≥ 0, got inf"),
        ((0.1, 0.1, np.nan), "sigma: wanted a finite number ≥ 0, got nan"),
        ((0.1, 0.1, SMALLEST_SIGMA / 2), "sigma: wanted 0 or at least 1e-08, got 5e-09"),
    ],
)
def test_rates_that_have_no_law_are_refused(values: tuple[float, float, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Rates(*values)


def test_without_drift_there_is_no_target() -> None:
    with pytest.raises(ValueError, match=r"gain, loss: wanted one above 0.*every state is a fixed point"):
        _ = Rates(0.0, 0.0, 0.1).target


def test_arguments_become_arrays_and_the_first_bad_element_is_named() -> None:
    assert unit("x", [0, 1]).dtype == non_negative("t", 3).dtype == np.float64
    with pytest.raises(ValueError, match=r"^x: wanted a number in \[0, 1\], got 1.5"):
        unit("x", [[0.5, 1.5], [2.0, 0.0]])
    with pytest.raises(ValueError, match=r"^t: wanted a finite number ≥ 0, got -1"):
        non_negative("t", -1)
