"""Evidence about Q-learning, capacity and allocation: the known numbers, and simulations."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import optimize

from crystalrl.theory import paper
from crystalrl.theory.claims.learning_claims import CLAIMS, biased_fixed_point, mean_distance, one_slot_error
from tests.theory.claims.evidence import assert_has


@pytest.mark.parametrize(
    ("where", "numbers"),
    [
        ("Cor. optimal_alloc", ("0.158114", "0.159687", "0.022361")),
        ("eq. cap, 4800", ("4.5e+10", "8.7e+08", "7.2e+04")),
    ],
)
def test_the_evidence_reproduces_the_known_numbers(where: str, numbers: tuple[str, ...]) -> None:
    assert_has(CLAIMS, where, numbers)


def test_prioritised_replay_without_full_correction_is_biased() -> None:
    rng = np.random.default_rng(0)
    rewards = np.where(np.arange(1000) < 100, 10.0, 0.0)
    q = 1.0
    for step in range(1, 20_001):
        error = np.abs(rewards - q) + 1e-12
        chance = error**0.6 / np.sum(error**0.6)
        drawn = rng.choice(1000, p=chance)
        weight = (1000 * chance[drawn]) ** -0.4
        q += 5.0 / (step + 100) * weight * (rewards[drawn] - q)
    assert q == pytest.approx(biased_fixed_point(0.6, 0.4), abs=0.1)
    assert biased_fixed_point(0.6, 1.0) == pytest.approx(1)
    assert paper.paper_q_error(0.0, 1.0, 10.0, 0.05, 100) == 0


def test_q_learning_converges_with_one_slot_where_the_paper_requires_thousands() -> None:
    assert paper.paper_necessary_capacity(10, 0.02, 0.05) == pytest.approx(13_246, abs=1)
    assert one_slot_error() < 0.02


def test_distances_to_the_nearest_point_are_those_found_by_comparing_all() -> None:
    rng = np.random.default_rng(5)
    points, probes = rng.random((50, 3)), rng.random((3000, 3))
    nearest = np.linalg.norm(probes[:, None] - points, axis=-1).min(axis=1)
    assert mean_distance(50, 3, np.random.default_rng(5)) == pytest.approx(nearest.mean())


def test_the_objectives_with_a_minimum_are_minimal_at_the_shares_named() -> None:
    """Weights of the paper at the defaults: √(βI) for crystals, √(αU) for the rest."""
    crystal, rest = np.sqrt(0.0005), np.sqrt(0.025)
    objectives = (
        lambda f: crystal / np.sqrt(f) + rest / np.sqrt(1 - f),
        lambda f: crystal**2 / f + rest**2 / (1 - f),
    )
    shares = [optimize.minimize_scalar(each, bounds=(0.01, 0.99), method="bounded").x for each in objectives]
    assert_has(CLAIMS, "Optimal split", tuple(f"{share:.4f}" for share in shares))
