"""Evidence about capacity and allocation: the known numbers, numerical minima and simulations."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import optimize

from crystalrl.theory import paper
from crystalrl.theory.claims.capacity_claims import CLAIMS, hoeffding_accuracy, one_slot_error
from tests.theory.claims.evidence import assert_has, evidence


@pytest.mark.parametrize(
    ("where", "numbers"),
    [
        ("Cor. optimal_alloc", ("0.158114", "0.159687", "0.022361")),
        ("eq. cap, 4800", ("4.5e+10", "8.7e+08", "7.2e+04")),
    ],
)
def test_the_evidence_reproduces_the_known_numbers(where: str, numbers: tuple[str, ...]) -> None:
    assert_has(CLAIMS, where, numbers)


def test_q_learning_converges_with_one_slot_where_the_paper_requires_thousands() -> None:
    assert paper.paper_necessary_capacity(10, 0.02, 0.05) == pytest.approx(13_246, abs=1)
    assert one_slot_error() < 0.02


def test_the_objectives_with_a_minimum_are_minimal_at_the_shares_named() -> None:
    """Weights of the paper at the defaults: √(βI) for crystals, √(αU) for the rest."""
    crystal, rest = np.sqrt(0.0005), np.sqrt(0.025)
    objectives = (
        lambda f: crystal / np.sqrt(f) + rest / np.sqrt(1 - f),
        lambda f: crystal**2 / f + rest**2 / (1 - f),
    )
    shares = [optimize.minimize_scalar(each, bounds=(0.01, 0.99), method="bounded").x for each in objectives]
    assert_has(CLAIMS, "Cor. optimal_alloc", tuple(f"{share:.4f}" for share in shares))


def test_the_share_of_the_paper_maximises_its_objective() -> None:
    best = optimize.minimize_scalar(
        lambda f: -(np.sqrt(0.0005 * f) + np.sqrt(0.025 * (1 - f))), bounds=(1e-6, 0.5), method="bounded"
    )
    assert best.x == pytest.approx(0.0005 / 0.0255, abs=1e-4)
    assert_has(CLAIMS, "Cor. optimal_alloc", (f"{best.x:.4f}",))


def test_more_crystals_need_more_slots_by_the_sufficient_condition() -> None:
    """The smallest N with K·√(f/N) ≤ ε, found by bisection."""
    scale, accuracy = 2 * 0.99 / 0.01**2, 0.05
    needed = [
        optimize.brentq(lambda n, f=f: scale * np.sqrt(f / n) - accuracy, 1, 1e14) for f in (0.0005 / 0.0255, 0.0625)
    ]
    assert_has(CLAIMS, "eq. cap, coverage", (f"{needed[0]:.1e}", f"{needed[1] / needed[0]:.1f}×"))


def test_upper_and_lower_bound_differ_by_a_factor_that_grows_with_the_horizon() -> None:
    ratios = [(2 * g / (1 - g) ** 2) ** 2 * 0.0005 / 0.0255 for g in (0.9, 0.99)]
    assert_has(CLAIMS, "Abstract (iii)", (f"{ratios[0]:.0f}", f"{ratios[1]:.1e}"))
    assert "1e+08" in evidence(CLAIMS, "App. A, Thm capacity")


def test_hoeffding_s_accuracy_holds_for_means_of_coins_and_says_nothing_about_single_ones() -> None:
    rng, pairs, size = np.random.default_rng(0), 20, 400
    worst = np.abs(rng.random((500, pairs, size)).round().mean(axis=2) - 0.5).max(axis=1)
    assert np.mean(worst > hoeffding_accuracy(size, pairs)) <= 0.05
    assert hoeffding_accuracy(1, pairs) > 1
    assert_has(CLAIMS, "App. A, proofs", (f"{np.sqrt(np.log(2e5 / 0.05) / 2):.1f}",))


def test_the_displayed_objective_has_no_interior_minimum_and_beta_raises_the_share() -> None:
    f = np.linspace(0.001, 0.9, 500)
    assert np.all(np.diff(np.sqrt(0.0005 * f) + np.sqrt(0.025 / (1 - f))) > 0)
    assert "increasing" in evidence(CLAIMS, "Cor. optimal_alloc, display")
    shares = [b * 0.1 / (0.025 + b * 0.1) for b in (0.005, 0.01, 0.05)]
    assert_has(CLAIMS, "Remark fC_bound", tuple(f"{share:.4f}" for share in shares))
