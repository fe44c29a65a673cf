"""Evidence about potentials and time steps: closed forms, recursions and densities of SciPy."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from crystalrl.theory import Crystallization
from crystalrl.theory.claims.physics_claims import CLAIMS, euler_mean_error, strong_order
from crystalrl.theory.rates import Rates
from tests.theory.claims.evidence import assert_has


@pytest.mark.parametrize(
    ("where", "numbers"),
    [
        ("Potential landscape", ("1", "0.67")),
        ("Relaxation time", ("39.2", "19.8")),
        ("Choice of σ", ("0.0316",)),
    ],
)
def test_the_evidence_reproduces_the_known_numbers(where: str, numbers: tuple[str, ...]) -> None:
    assert_has(CLAIMS, where, numbers)


def test_helpers_of_the_evidence_give_the_known_numbers() -> None:
    assert euler_mean_error(Crystallization().rates) == pytest.approx(0.0047, abs=1e-4)


@pytest.mark.parametrize("rates", [Rates(0.025, 0.0005, 0.005), Rates(0.1, 0.002, 0.01)])
def test_the_mean_error_is_that_of_the_recursion_without_noise(rates: Rates) -> None:
    c, worst = 0.0, 0.0
    for step in range(1, 400):
        c += rates.gain * (1 - c) - rates.loss * c
        exact = rates.gain / rates.rate * (1 - np.exp(-rates.rate * step))
        worst = max(worst, abs(c - exact))
    assert euler_mean_error(rates) == pytest.approx(worst, rel=1e-9)


def test_the_strong_order_is_one_half_only_where_the_ends_are_not_hit() -> None:
    assert strong_order(4.0) > strong_order(1.0) > strong_order(0.05)
    assert strong_order(1.0) == pytest.approx(0.5, abs=0.05)
    assert strong_order(0.05) < 0.4


def test_the_density_is_that_of_scipy_and_the_printed_weight_is_another() -> None:
    a, b = 2 * 0.025 / 0.1**2, 2 * 0.0005 / 0.1**2
    density = stats.beta.pdf([0.9, 0.99], a, b)
    weight = 0.99**a * 0.01**b / (0.9**a * 0.1**b)
    assert_has(CLAIMS, "Prop. grad_flow, Gibbs", (f"{density[1] / density[0]:.2f}", f"{weight:.2f}"))
    skewed = stats.beta.pdf([0.5, 0.9, 0.99], 20, 0.4)
    numbers = (f"{skewed[0]:.1e}", f"{skewed[1]:.2f}", f"{skewed[2]:.2f}")
    assert_has(CLAIMS, "Phase interpretation", numbers)


def test_crystals_can_dominate_with_both_shapes_below_one() -> None:
    a, b = 2 * 0.0006 / 0.05**2, 2 * 0.0004 / 0.05**2
    assert max(a, b) < 1
    crystal, liquid = stats.beta.sf(0.7, a, b), stats.beta.cdf(0.3, a, b)
    assert_has(CLAIMS, "Phase interpretation, sides", (f"{crystal:.0%}", f"{liquid:.0%}"))
