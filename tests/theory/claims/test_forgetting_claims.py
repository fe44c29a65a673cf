"""Evidence about forgetting and melting: the known numbers, closed forms and a simulation."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from crystalrl.theory.claims.claim import contradicted
from crystalrl.theory.claims.forgetting_claims import CLAIMS, utility_for
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
    numbers = (f"{times[0]:.0f}", f"{times[1]:.0f}", f"{state:.3f}")
    assert_has(CLAIMS, "Alg. 1, eviction counter", numbers)


def test_crystals_without_utility_fall_below_as_often_as_simulated_ones() -> None:
    share = np.mean(simulate(contradicted(0.0).rates, 0.98, 250.0, 1000, 8000) < 0.3)
    assert abs(share - 0.80) < 0.005 + 3 * np.sqrt(share * (1 - share) / 8000)
    assert_has(CLAIMS, "Forgetting, 50 000 steps", ("0.80", "0.01", "0.775"))
