"""Evidence about contents, time scales and settings: integrated paths, closed forms and simulated queues."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate, stats

from crystalrl.theory.claims.operation_claims import CLAIMS, falling_factor
from tests.theory.claims.evidence import assert_has


@pytest.mark.parametrize(
    ("where", "numbers"),
    [
        ("Table bio", ("2,865", "9,818", "2.43")),
        ("Turnover", ("87.4%", "19")),
        ("Early crystals", ("13,277", "6,536")),
    ],
)
def test_the_evidence_reproduces_the_known_numbers(where: str, numbers: tuple[str, ...]) -> None:
    assert_has(CLAIMS, where, numbers)


def test_a_utility_that_falls_in_glass_gives_the_ratio_of_the_table() -> None:
    """dc/dt = U(1 − c), with U divided by the factor once c has passed .3."""
    factor = falling_factor(10)

    def slope(_: float, c: np.ndarray) -> np.ndarray:
        return (1 - c) / (1 if c[0] < 0.3 else factor)

    times = []
    for level in (0.3, 0.7):

        def reached(_: float, c: np.ndarray, level: float = level) -> float:
            return float(c[0]) - level

        reached.terminal = True  # type: ignore[attr-defined]
        times.append(integrate.solve_ivp(slope, (0, 50), [0.0], events=reached, max_step=0.001).t[-1])
    assert (times[1] - times[0]) / times[0] == pytest.approx(10, rel=0.01)
    assert_has(CLAIMS, "Table bio", (f"{factor:.1f}×",))


def test_steady_state_means_are_averages_along_the_path() -> None:
    c = 1 - np.exp(-np.linspace(0, 2, 100_001))
    liquid, glass = c[c < 0.3].mean(), c[(c >= 0.3) & (c < 0.7)].mean()
    assert_has(CLAIMS, "Monitoring, means", (f"{liquid:.3f}", f"{glass:.3f}"))
    spreads = [stats.beta.std(0.05 / s**2, 0.001 / s**2) for s in (0.005, 0.02)]
    assert_has(CLAIMS, "Monitoring, flatness", tuple(f"{spread:.4f}" for spread in spreads))


def test_liquid_holds_the_arrivals_of_the_time_to_glass() -> None:
    """200 arrivals per consolidation, each liquid until c = c*(1 − e^(−λt)) reaches .3."""
    time = -np.log(1 - 0.3 / (0.025 / 0.0255)) / 0.0255
    assert_has(CLAIMS, "Utilisation", (f"{200 * time:.0f}",))


def promoted_by_fifo(alpha: float, unit: float, level: float) -> float:
    """The smallest utility on a fine grid that reaches the level while 62,500 others arrive, one per step."""
    utilities = np.linspace(0, 1, 100_001)
    c = 1 - np.exp(-alpha * utilities * 62_500 / unit)
    return float(utilities[np.argmax(c >= level)])


def test_settings_of_the_table_melt_and_select_by_closed_forms() -> None:
    edges = [b / a * tau / (1 - tau) for a, b, tau in ((0.1, 0.02, 0.65), (0.05, 0.005, 0.7), (0.01, 0.001, 0.8))]
    assert_has(CLAIMS, "Table impl, fast", tuple(f"{edge:.3f}" for edge in edges))
    later = (np.log(5) / 0.01 * 1000) / (-np.log(0.3) / 0.05 * 200)
    floors = [promoted_by_fifo(*setting) for setting in ((0.01, 1000, 0.35), (0.05, 200, 0.30))]
    assert_has(CLAIMS, "Table impl, slow", (f"{floors[0]:.2f}", f"{floors[1]:.2f}", f"{later:.0f}×"))
