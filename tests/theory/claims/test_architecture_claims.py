"""Evidence about buffers and algorithms: the known numbers, and those that can be counted or simulated."""

from __future__ import annotations

import numpy as np
import pytest

from crystalrl.theory.claims.architecture_claims import CLAIMS
from tests.theory.claims.evidence import assert_has, evidence


@pytest.mark.parametrize(
    ("where", "numbers"),
    [
        ("Alg. 2, split", ("357",)),
        ("Alg. 1, capacities", ("16,068", "72,318")),
        ("Table bio", ("2,865", "9,818", "2.43")),
        ("Turnover", ("87.4%", "19")),
    ],
)
def test_the_evidence_reproduces_the_known_numbers(where: str, numbers: tuple[str, ...]) -> None:
    assert_has(CLAIMS, where, numbers)


def test_the_rates_of_the_phases_are_averages_over_time() -> None:
    """A path from 0 at a constant utility, in 10⁵ steps: (1 − c)² averaged over the steps in each phase."""
    c = 1 - np.exp(-np.linspace(0, 2, 100_001))
    liquid, glass = c < 0.3, (c >= 0.3) & (c <= 0.7)
    means = [float(np.mean((1 - c[phase]) ** 2)) for phase in (liquid, glass)]
    assert f"liquid {means[0]:.3f}, glass {means[1]:.3f}" in evidence(CLAIMS, "Table phases, rates")


def test_times_to_eviction_are_those_of_simulated_counters() -> None:
    """Formulas at a chance of .5 and a limit of 4, where both can be simulated: (p^−n − 1)/(1 − p) and n/p."""
    rng, p, limit = np.random.default_rng(0), 0.5, 4
    ends: dict[bool, list[int]] = {True: [], False: []}
    for reset, times in ends.items():
        for _ in range(20_000):
            count = time = 0
            while count < limit:
                hit = rng.random() < p
                count, time = count + 1 if hit else (0 if reset else count), time + 1
            times.append(time)
    for reset, formula in ((True, (p**-limit - 1) / (1 - p)), (False, limit / p)):
        assert abs(np.mean(ends[reset]) - formula) < 4 * np.std(ends[reset]) / np.sqrt(20_000)
    assert_has(CLAIMS, "Alg. 1, counter", (f"{(0.1**-20 - 1) / 0.9:.1e}", f"{20 / 0.1:.0f}"))


def test_without_interference_every_utility_crystallizes_and_only_the_time_differs() -> None:
    times = [-np.log(0.3) / (0.05 * utility) for utility in (0.5, 0.1, 0.01)]
    assert_has(CLAIMS, "Utility and crystals", tuple(f"{time:.0f}" for time in times))
