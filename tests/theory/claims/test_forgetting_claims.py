"""Evidence about forgetting and melting: the known numbers, closed forms and a simulation."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from crystalrl.theory.claims.claim import contradicted
from crystalrl.theory.claims.forgetting_claims import CLAIMS, reachable, utility_for
from tests.theory.claims.evidence import assert_has
from tests.theory.oracles import simulate


@pytest.mark.parametrize(
    ("where", "numbers"),
    [
        ("eq. forget_bound", ("0.0388", "0.0397")),
        ("Forgetting, rule", ("0.0585", "0.0764")),
        ("Forgetting, derivation", ("3.66e-04", "1.53e-04")),
        ("Appendix, factors", ("0.987",)),
    ],
)
def test_the_evidence_reproduces_the_known_numbers(where: str, numbers: tuple[str, ...]) -> None:
    assert_has(CLAIMS, where, numbers)


def test_helpers_of_the_evidence_give_the_known_numbers() -> None:
    assert utility_for(1e-4, 0.005) == pytest.approx(0.0585, abs=1e-4)


@pytest.mark.parametrize("sigma", [0.005, 0.01])
def test_at_the_utility_found_the_beta_distribution_has_the_wanted_probability(sigma: float) -> None:
    utility = utility_for(1e-4, sigma)
    shapes = 2 * 0.05 * utility / sigma**2, 2 * 0.005 / sigma**2
    assert stats.beta.cdf(0.3, *shapes) == pytest.approx(1e-4, rel=1e-6)


def test_melting_without_utility_is_an_exponential_decay() -> None:
    times = [np.log(0.98 / tau) / 0.005 for tau in (0.7, 0.3)]
    state = 0.98 * np.exp(-0.005 * 20)
    numbers = ("0.2333", f"{times[0]:.0f}", f"{times[1]:.0f}", f"{state:.3f}")
    assert_has(CLAIMS, "Selective melting", numbers)


def test_crystals_without_utility_fall_below_as_often_as_simulated_ones() -> None:
    share = np.mean(simulate(contradicted(0.0).rates, 0.98, 250.0, 1000, 8000) < 0.3)
    assert abs(share - 0.80) < 0.005 + 3 * np.sqrt(share * (1 - share) / 8000)
    assert_has(CLAIMS, "Forgetting, 50 000 steps", ("0.80", "0.01", "0.775"))


def test_algorithm_1_never_moves_a_crystal_to_another_phase() -> None:
    assert reachable("crystal") == set()
    assert reachable("liquid") == {"glass", "crystal"}
    assert reachable("glass") == {"liquid", "crystal"}


def test_the_inequality_of_step_4_fails_up_to_the_value_named() -> None:
    x = np.linspace(0.9, 0.95, 50_001)
    holds = (1 - np.exp(-x)) ** 2 >= x * np.exp(-x)
    assert not np.any((1 - np.exp(-x / 9)) ** 2 >= x / 9 * np.exp(-x / 9))
    assert_has(CLAIMS, "Thm forgetting, step 4", (f"{x[np.argmax(holds)]:.4f}",))


def test_the_valid_bounds_are_those_of_the_moments_and_of_scipy_s_beta_distribution() -> None:
    """U = .05, I = 1 from c = .71: λ = .0075, c* = 1/3; at T = 5000 the moments are stationary."""
    a, b = 2 * 0.0025 / 0.005**2, 2 * 0.005 / 0.005**2
    mean, variance = stats.beta.stats(a, b)
    gap = mean - 0.3
    gauss = np.exp(-4 * 0.0075 * gap**2 / 0.005**2)
    ratio = stats.beta.cdf(0.3, a, b) / stats.beta.cdf(0.71, a, b)
    numbers = (f"{gauss:.3f}", f"{variance / (variance + gap**2):.3f}", f"{ratio:.4f}")
    assert_has(CLAIMS, "eq. forget_bound", numbers)
