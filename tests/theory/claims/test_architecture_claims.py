"""Evidence about phases and algorithms: the known numbers, and those that can be counted or simulated."""

from __future__ import annotations

import heapq

import numpy as np
import pytest

from crystalrl.theory.claims.architecture_claims import CLAIMS, EPISODE, crystal_share, lowest_kept, mean_learning_rates
from tests.theory.claims.evidence import assert_has, evidence


@pytest.mark.parametrize(
    ("where", "numbers"),
    [
        ("Alg. 2, split", ("357",)),
        ("Alg. 1, capacities", ("16,068", "72,318")),
        ("Table phases, replay", ("1.12", "0.80")),
        ("Sampling weights", ("3.98×", "2.51×", "10×")),
    ],
)
def test_the_evidence_reproduces_the_known_numbers(where: str, numbers: tuple[str, ...]) -> None:
    assert_has(CLAIMS, where, numbers)


def path() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """c from 0 at a constant utility, in 10⁵ steps, and which of them are liquid and glass."""
    c = 1 - np.exp(-np.linspace(0, 2, 100_001))
    return c, c < 0.3, (c >= 0.3) & (c <= 0.7)


def test_the_rates_of_the_phases_are_averages_over_time() -> None:
    c, liquid, glass = path()
    means = [float(np.mean((1 - c[phase]) ** 2)) for phase in (liquid, glass)]
    assert mean_learning_rates() == pytest.approx(means, abs=1e-4)
    assert f"liquid {means[0]:.3f}, glass {means[1]:.3f}" in evidence(CLAIMS, "Table phases, rates")


def test_the_share_of_crystals_in_the_update_is_that_of_simulated_batches() -> None:
    """Batches of 70 % liquid, 25 % glass and 5 % crystal, with weights (1 − c)²."""
    rng = np.random.default_rng(0)
    c, liquid, glass = path()
    weights = [(1 - rng.choice(c[phase], n)) ** 2 for phase, n in ((liquid, 70_000), (glass, 25_000))]
    for state in (0.7, 0.025 / 0.0255):
        crystal = 5_000 * (1 - state) ** 2
        share = crystal / (weights[0].sum() + weights[1].sum() + crystal)
        assert crystal_share(state) == pytest.approx(share, rel=0.01)
    assert_has(CLAIMS, "Protected data", (f"{crystal_share(0.025 / 0.0255):.1e}", f"{crystal_share(0.7):.1%}"))


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


def test_a_store_that_evicts_the_lowest_utility_keeps_what_the_formula_says() -> None:
    """One arrival per step with a uniform utility stays until glass, k/U steps later, or until it is the lowest."""
    rng, k, room = np.random.default_rng(0), 500.0, 1500
    alpha = -np.log(0.7) * EPISODE / k
    leaving: list[tuple[float, int]] = []
    lowest: list[tuple[float, int]] = []
    here: set[int] = set()
    evicted = []
    for step, utility in enumerate(rng.random(60_000)):
        while leaving and leaving[0][0] <= step:
            here.discard(heapq.heappop(leaving)[1])
        here.add(step)
        heapq.heappush(leaving, (step + k / utility, step))
        heapq.heappush(lowest, (utility, step))
        while len(here) > room:
            worst, number = heapq.heappop(lowest)
            if number in here:
                here.remove(number)
                evicted.append((step, worst))
    late = [worst for step, worst in evicted if step > 20_000]
    assert float(lowest_kept(np.array(room), alpha)) == pytest.approx(np.quantile(late, 0.95), abs=0.01)
    assert_has(CLAIMS, "Liquid eviction", ("0.228", f"{np.exp(-6250 * 0.05 / 200 / -np.log(0.7)):.3f}", "0.023"))


def test_penalties_of_all_tasks_are_one_quadratic_form() -> None:
    """Completing the square: Σ F(θ − μ)² = ΣF·(θ − m)² + constant, for one parameter and three tasks."""
    fisher, optimum = np.array([1.0, 2.0, 5.0]), np.array([0.3, -1.0, 2.0])
    theta = np.linspace(-3, 3, 50)
    penalty = (fisher * (theta[:, None] - optimum) ** 2).sum(axis=1)
    centre = (fisher * optimum).sum() / fisher.sum()
    rest = penalty - fisher.sum() * (theta - centre) ** 2
    assert rest == pytest.approx(np.full(50, rest[0]))
    assert evidence(CLAIMS, "EWC, memory").endswith("True")


def test_the_soft_target_forgets_as_its_recursion_does() -> None:
    kept = 1.0
    for _ in range(1000):
        kept *= 1 - 0.005
    assert_has(CLAIMS, "Alg. 2 and 3, targets", (f"{kept:.1%}",))
