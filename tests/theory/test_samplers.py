"""Samplers against the law, and the measured strong and weak orders of Euler–Maruyama."""

from __future__ import annotations

import numpy as np
import pytest

from crystalrl.theory import Crystallization, moments
from crystalrl.theory.rates import Rates
from crystalrl.theory.samplers import SAMPLERS, Trial, compare, euler, measure

from .oracles import rates


def strong_order(shape: float, paths: int = 2000) -> float:
    """Slope of the root-mean-square error at t = 1 over steps 2⁻⁴ … 2⁻⁸, σ = 1, against 2⁻¹³ on the same noise."""
    rng = np.random.default_rng(0)
    finest = 13
    noise = rng.standard_normal((2**finest, paths)) * 2 ** (-finest / 2)
    rate = shape / 2

    def run(level: int) -> np.ndarray:
        step = 2.0**-level
        c = np.full(paths, 0.5)
        for increment in noise.reshape(2**level, -1, paths).sum(axis=1):
            c = np.clip(c + step * rate * (1 - 2 * c) + np.sqrt(c * (1 - c)) * increment, 0, 1)
        return c

    reference = run(finest)
    levels = np.arange(4, 9)
    errors = [np.sqrt(np.mean((run(int(level)) - reference) ** 2)) for level in levels]
    return float(np.polyfit(-levels * np.log(2), np.log(errors), 1)[0])


@pytest.mark.parametrize(
    ("shape", "low", "high"), [(4.0, 0.6, 0.9), (1.0, 0.4, 0.55), (0.3, 0.3, 0.45), (0.05, 0.18, 0.32)]
)
def test_the_strong_order_drops_where_the_ends_are_hit(shape: float, low: float, high: float) -> None:
    assert low < strong_order(shape) < high


def test_the_weak_order_is_one_inside_and_drops_where_clipping_acts() -> None:
    steps = np.array([0.5, 0.25, 0.125, 0.0625])
    inside, clipped = rates(40.0, 20.0, 0.1), rates(0.05, 1.0, 1.0)
    exact = [abs(_euler_second_moment(inside, dt, 4.0) - _second_moment(inside, 4.0)) for dt in steps]
    assert np.polyfit(np.log(steps), np.log(exact), 1)[0] == pytest.approx(1, abs=0.1)
    rng = np.random.default_rng(0)
    biases = []
    for dt in steps:
        c = np.full(100_000, 0.5)
        for _ in range(round(1.0 / dt)):
            c = euler(clipped, c, float(dt), rng)
        target = clipped.target + (0.5 - clipped.target) * np.exp(-clipped.rate)
        biases.append(c.mean() - target)
    assert min(biases) > 3 * 0.5 / np.sqrt(100_000)
    assert np.polyfit(np.log(steps), np.log(biases), 1)[0] < 0.8


def _second_moment(law: Rates, t: float) -> float:
    return float(moments.variance(law, t, 0.1) + moments.mean(law, t, 0.1) ** 2)


def _euler_second_moment(law: Rates, dt: float, t: float) -> float:
    """Exact second moment of unclipped Euler from c = .1; its moment equations close, as those of the law do."""
    first, second = 0.1, 0.01
    for _ in range(round(t / dt)):
        kept, gained = 1 - dt * law.rate, dt * law.gain
        second = kept**2 * second + 2 * kept * gained * first + gained**2 + law.noise * dt * (first - second)
        first = kept * first + gained
    return second


def test_the_mean_error_of_euler_follows_its_rule_of_thumb_at_the_defaults() -> None:
    law = Crystallization().rates
    steps = np.arange(1, 200)
    gap = np.abs((1 - law.rate) ** steps - np.exp(-law.rate * steps)).max() * law.target
    assert gap == pytest.approx(0.0047, abs=1e-4)
    assert gap == pytest.approx(0.184 * law.rate * law.target, rel=0.03)


def test_matched_beta_is_exact_in_both_moments_for_any_step() -> None:
    law = Crystallization(sigma=0.05, interference=1.0).rates
    for dt in (1.0, 10.0, 50.0):
        row = measure(law, "matched Beta", dt, Trial(0.2, 50.0, 20_000))
        assert abs(row.mean_error) < 3 * row.standard_error
        assert row.variance_ratio == pytest.approx(1, abs=0.035)


def test_euler_overshoots_at_large_steps_and_clipping_biases_it_upward_at_regular_ends() -> None:
    law = Crystallization().rates
    assert measure(law, "euler", 50.0, Trial(0.0, 50.0, 2000)).mean_error == pytest.approx(0.29, abs=0.02)
    rough = Crystallization(sigma=0.2, utility=0.02, interference=1.0).rates
    row = measure(rough, "euler", 1.0, Trial(0.0, 300.0, 20_000))
    assert row.mean_error == pytest.approx(0.15, abs=0.02)
    assert row.mean_error > 10 * row.standard_error


def test_the_beta_binomial_step_has_the_right_atom_and_too_small_a_variance_at_large_steps() -> None:
    absorbing = Crystallization(interference=0.0).rates
    row = measure(absorbing, "Beta-binomial", 10.0, Trial(0.0, 300.0, 20_000))
    assert row.at_one == pytest.approx(0.329, abs=0.012)
    law = Crystallization().rates
    coarse = measure(law, "Beta-binomial", 50.0, Trial(0.0, 50.0, 20_000))
    assert coarse.variance_ratio == pytest.approx(0.73, abs=0.06)


@pytest.mark.parametrize("name", ["matched Beta", "Beta-binomial"])
def test_accurate_samplers_stay_close_to_the_law_near_regular_ends(name: str) -> None:
    law = rates(0.4, 0.4, 0.1)
    row = measure(law, name, 1.0, Trial(0.5, 50.0, 20_000))
    assert row.distance < 0.02


def test_every_sampler_stays_in_the_unit_interval() -> None:
    rng = np.random.default_rng(0)
    for law in (rates(0.05, 0.05, 1.0), Rates(0, 0, 1.0), Rates(0.5, 0, 0.3), Rates(0, 0.5, 0.3)):
        for step in SAMPLERS.values():
            c = step(law, np.linspace(0, 1, 500), 0.7, rng)
            assert np.all((c >= 0) & (c <= 1))


def test_the_comparison_covers_every_sampler_and_refuses_steps_that_do_not_divide_the_horizon() -> None:
    law = Crystallization().rates
    rows = compare(law, (1.0, 5.0), Trial(0.0, 10.0, 100))
    assert [(row.sampler, row.dt) for row in rows] == [(name, dt) for name in SAMPLERS for dt in (1.0, 5.0)]
    with pytest.raises(ValueError, match=r"step: wanted one that divides the horizon 10, got 3"):
        compare(law, (3.0,), Trial(0.0, 10.0, 100))
