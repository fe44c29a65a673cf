"""Evidence about utility and interference: closed forms, a recursion and a count of neighbours."""

from __future__ import annotations

import numpy as np
import pytest

from crystalrl.theory.claims.utility_claims import CLAIMS, largest_boost
from tests.theory.claims.evidence import assert_has


def test_without_interference_every_utility_crystallizes_and_only_the_time_differs() -> None:
    times = [-np.log(0.3) / (0.05 * utility) for utility in (0.5, 0.1, 0.01)]
    assert_has(CLAIMS, "Utility and crystals", tuple(f"{time:.0f}" for time in times))


@pytest.mark.parametrize(("utility", "steps"), [(1.0, 24), (14.01, 1)])
def test_euler_steps_reach_crystal_as_the_evidence_says(utility: float, steps: int) -> None:
    """Euler steps of α·U·(1 − c) are slightly faster than the exact path, which takes 25 consolidations at U = 1."""
    c = count = 0
    while c <= 0.7:
        c, count = c + 0.05 * utility * (1 - c), count + 1
    assert count == steps
    assert_has(CLAIMS, "Spikes", ("25", "14"))
    assert_has(CLAIMS, "Utility in [0, 1]", ("6", "14", "20"))


def test_the_boost_is_bounded_by_one_only_for_discounted_returns() -> None:
    for horizon in (200, 1000):
        total, weight, plain = 0.0, 1.0, 0.0
        for _ in range(horizon):
            total, weight, plain = total + weight, weight * 0.99, plain + 1
        assert largest_boost(horizon, 0.99, True) == pytest.approx(total / 100)
        assert largest_boost(horizon, 0.99, False) == pytest.approx(plain / 100)
    assert_has(CLAIMS, "Alg. 3, boost", ("2", "10", f"{1 - 0.99**200:.2f}", "1.00"))


def test_many_neighbours_flag_nearly_everything() -> None:
    flags = np.random.default_rng(0).random((4000, 500)) < 0.01
    share = flags.any(axis=1).mean()
    assert abs(share - 0.993) < 4 * np.sqrt(0.993 * 0.007 / 4000)
    assert_has(CLAIMS, "eq. interf", ("0.993",))


def test_negative_utility_pushes_c_out_of_the_interval_and_the_certificate_is_out_of_reach() -> None:
    assert_has(CLAIMS, "Safe RL", (f"{0.05 * -1:.2f}",))
    assert_has(CLAIMS, "Safe RL, certificate", (f"{0.05 / 0.055:.3f}",))


def test_glass_weights_differ_by_the_root_of_the_thresholds_ratio_at_most() -> None:
    c = np.random.default_rng(0).uniform(0.3, 0.7, 100_000)
    assert_has(CLAIMS, "Oversampling", (f"×{np.sqrt(c.max() / c.min()):.2f}",))


def test_constant_novelty_alone_crystallizes_everything() -> None:
    time = -np.log(0.3) / (0.05 * 0.3)
    assert_has(CLAIMS, "eq. nov", (f"{np.exp(-0.02):.2f}", f"{time:.0f}"))
