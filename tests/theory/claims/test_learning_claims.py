"""Evidence about the error of Q-learning: closed forms and simulations."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from crystalrl.theory import paper
from crystalrl.theory.claims.learning_claims import CLAIMS, biased_fixed_point, mean_distance
from tests.theory.claims.evidence import assert_has


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


def test_distances_to_the_nearest_point_are_those_found_by_comparing_all() -> None:
    rng = np.random.default_rng(5)
    points, probes = rng.random((50, 3)), rng.random((3000, 3))
    nearest = np.linalg.norm(probes[:, None] - points, axis=-1).min(axis=1)
    assert mean_distance(50, 3, np.random.default_rng(5)) == pytest.approx(nearest.mean())


def test_a_crystal_share_can_exceed_the_mean_crystallization() -> None:
    """Beta(A, B) with A = 2·.05·.005/σ² and B = 2·.005/σ² has the mean .0476 < .0625."""
    mean = stats.beta.mean(0.0005 / 0.005**2, 0.01 / 0.005**2)
    assert mean < 0.0625
    assert_has(CLAIMS, "Thm qconv, share", (f"{mean:.4f}",))
    weak = 0.001 / 0.006
    assert_has(CLAIMS, "Remark rm_verified, inequality", (f"{weak:.3f}", f"{(1 - weak) ** 2:.3f}", "0.49"))


def test_common_schedules_have_a_finite_sum() -> None:
    """Cosine: half of the steps, plus ½; halving every 100 steps: 100·(1 + ½ + ¼ + …) = 200."""
    assert_has(CLAIMS, "Remark rm_verified, schedules", (f"{1000 / 2 + 0.5:.1f}", "200"))


def test_the_bound_is_that_of_the_formula() -> None:
    bound = 2 * 0.99 / 0.01**2 * 0.0625 / np.sqrt(6250)
    assert_has(CLAIMS, "Thm qconv, use", (f"{bound:.1f}",))
    assert_has(CLAIMS, "Sensitivity, α*", (f"{bound:.2f}",))
    assert_has(CLAIMS, "App. A, Thm qconv", (f"{0.0625 / (0.0005 / 0.0255):.1f}×",))
