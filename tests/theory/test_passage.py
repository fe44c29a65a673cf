"""First passage: closed forms, quadrature, simulation, and the regimes of survival."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special

from crystalrl.theory import Crystallization
from crystalrl.theory.passage import mean_first_passage, survival
from crystalrl.theory.rates import Rates

from .oracles import mean_passage_up, rates


def hitting_times(law: Rates, c0: float, tau: float, dt: float, steps: int, paths: int, seed: int = 0) -> np.ndarray:
    """Simulated first-passage times, ∞ where τ is not reached; Brownian bridges detect crossings between steps."""
    rng = np.random.default_rng(seed)
    c, hit = np.full(paths, c0), np.full(paths, np.inf)
    side = np.sign(c0 - tau)
    for step in range(steps):
        deviation = law.sigma * np.sqrt(dt * c * (1 - c))
        new = np.clip(c + dt * (law.gain * (1 - c) - law.loss * c) + deviation * rng.standard_normal(paths), 0, 1)
        near, far = side * (c - tau), side * (new - tau)
        bridge = np.exp(-2 * np.maximum(near, 0) * np.maximum(far, 0) / np.maximum(deviation**2, 1e-300))
        crossed = np.isinf(hit) & ((far <= 0) | (rng.random(paths) < bridge))
        hit[crossed] = (step + 0.5) * dt
        c = new
    return hit


def test_the_mean_path_reaches_the_thresholds_at_the_known_times() -> None:
    times = Crystallization().time_to([0.3, 0.7, 0.8, 0.95], 0.0)
    np.testing.assert_allclose(times, [14.325, 49.089, 66.4, 136.2], rtol=1e-3)
    np.testing.assert_allclose(Crystallization().mean_first_passage([0.3, 0.7], 0.0), [14.323, 49.064], rtol=1e-4)
    assert Crystallization().time_to(0.99, 0.0) == np.inf


def test_melting_without_utility_takes_67_and_237_consolidations() -> None:
    law = Crystallization(utility=0.0, interference=1.0)
    np.testing.assert_allclose(law.time_to([0.7, 0.3], 0.98), [67.3, 236.7], rtol=2e-3)


@pytest.mark.parametrize(("utility", "expected"), [(1.0, 177.5), (0.5, 327.3), (0.1, 1316.8)])
def test_without_interference_c_reaches_one_after_the_closed_form_time(utility: float, expected: float) -> None:
    law = Crystallization(utility=utility, interference=0.0)
    shape = law.rates.shapes[0]
    closed = 2 / law.sigma**2 * (special.digamma(shape) + np.euler_gamma) / (shape - 1)
    assert law.absorption_time(0.0) == pytest.approx(closed, rel=1e-9)
    assert law.absorption_time(0.0) == pytest.approx(expected, abs=0.06)


@pytest.mark.parametrize(
    "shapes", [(0.05, 0.05), (0.05, 2), (2, 0.05), (1, 1), (4, 9), (30, 0.5), (200, 400), (2000, 40)]
)
def test_mean_first_passage_agrees_with_high_precision_quadrature(shapes: tuple[float, float]) -> None:
    law = rates(*shapes)
    for start, target in ((0.2, 0.35), (0.0, 0.2)):
        exact = mean_passage_up(law, start, target)
        assert mean_first_passage(law, target, start) == pytest.approx(exact, rel=2e-7)
        assert mean_first_passage(law.mirrored, 1 - target, 1 - start) == pytest.approx(exact, rel=2e-7)


def test_mean_first_passage_agrees_with_simulation_within_three_standard_errors() -> None:
    law = Crystallization(sigma=0.1, alpha=0.1, utility=0.5, beta=0.05, interference=1.0)
    hit = hitting_times(law.rates, 0.8, 0.4, dt=0.05, steps=8000, paths=3000)
    assert np.all(np.isfinite(hit))
    assert abs(hit.mean() - law.mean_first_passage(0.4, 0.8)) < 3 * hit.std() / np.sqrt(hit.size)


@pytest.mark.parametrize(
    ("law", "tau", "c0", "t", "method"),
    [
        (Crystallization(sigma=0.1, alpha=0.1, utility=0.5, beta=0.05, interference=1.0), 0.3, 0.8, 20.0, "volumes"),
        (Crystallization(sigma=0.1), 0.3, 0.0, 14.0, "volumes"),
        (Crystallization(), 0.3, 0.0, 14.3, "no return"),
        (Crystallization(utility=0.0, interference=1.0), 0.3, 0.9, 220.0, "volumes"),
    ],
)
def test_survival_agrees_with_simulation_within_three_standard_errors(
    law: Crystallization, tau: float, c0: float, t: float, method: str
) -> None:
    answer = law.survival(tau, t, c0, full_output=True)
    assert answer.method == method
    hit = hitting_times(law.rates, c0, tau, dt=t / 800, steps=800, paths=8000)
    share = np.mean(hit > t)
    assert 0.05 < share < 0.95
    assert abs(share - answer.value) < 3 * np.sqrt(share * (1 - share) / hit.size) + answer.error


def test_rare_melting_follows_the_exponential_law() -> None:
    law = Crystallization(utility=0.06, interference=1.0)
    assert law.mean_first_passage(0.3, 0.71) == pytest.approx(2.9e5, rel=0.01)
    np.testing.assert_allclose(1 - law.survival(0.3, [5000.0, 20_000.0], 0.71), [0.015, 0.065], atol=5e-4)
    by_rate = 1 - np.exp(-20_000 / law.mean_first_passage(0.3, 0.71))
    assert 1 - law.survival(0.3, 20_000.0, 0.71) == pytest.approx(by_rate, rel=0.06)


@pytest.mark.parametrize(("utility", "power"), [(0.3, 5.8), (0.5, 50.2)])
def test_selective_melting_takes_astronomically_long(utility: float, power: float) -> None:
    law = Crystallization(utility=utility, interference=1.0)
    assert law.log10_mean_first_passage(0.7, 0.95) == pytest.approx(power, abs=0.05)


def test_impossible_passages_take_forever() -> None:
    assert Crystallization(interference=0.0).mean_first_passage(0.3, 0.9) == np.inf
    assert Crystallization().mean_first_passage(1.0, 0.9) == np.inf
    assert np.isfinite(Crystallization(sigma=0.05).mean_first_passage(1.0, 0.9))
    assert Crystallization().absorption_time(0.5) == np.inf
    assert Crystallization(sigma=0.0).mean_first_passage(0.3, 0.0) == pytest.approx(14.325, rel=1e-4)
    assert Crystallization(utility=0, interference=0, sigma=0.1).absorption_time(0.5) == pytest.approx(
        2 * np.log(2) / 0.01
    )


def test_survival_at_the_threshold_and_at_time_zero_is_certain() -> None:
    law = Rates(0.02, 0.01, 0.1)
    assert survival(law, 0.5, 3.0, 0.5).value == 0
    assert survival(law, 0.5, 0.0, 0.2).value == 1
