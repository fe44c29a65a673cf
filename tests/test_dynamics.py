"""The law of c: simulated steps against exact moments and the stationary distribution."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
import torch
from scipy import stats

from crystalrl import CrystalMemory, CrystalParams, Transition, dynamics
from crystalrl.backends.splitmix import signed
from crystalrl.random import beta_variates, lane_key, normal_from_bits, start_of
from crystalrl.random import element_bits as bits
from tests.reference_crystal.law import moments

COUNT = 40_000
SETS = [  # c, gain, loss, sigma
    (0.0, 0.025, 0.0005, 0.005),  # the paper's default at U = .5, mean interference .1
    (0.0, 0.025, 0.0, 0.005),
    (0.98, 0.0, 0.005, 0.005),
    (0.71, 0.025, 0.005, 0.05),
    (0.5, 0.1, 0.1, 0.3),
    (0.1, 0.02, 0.3, 0.2),
    (0.9, 0.3, 0.02, 0.1),
    (0.4, 0.0, 0.0, 0.1),
    (0.3, 0.002, 0.001, 0.3),
    (0.6, 0.2, 0.8, 0.05),
]
STEPS = (0.1, 1.0, 20.0)


def f64(*values: float) -> list[torch.Tensor]:
    return [torch.full((COUNT,), value, dtype=torch.float64) for value in values]


def noise(tick: int) -> torch.Tensor:
    return start_of(torch.tensor(signed(lane_key(11, 3))), torch.tensor(tick))


def beta_step(c: torch.Tensor, rest: list[torch.Tensor], tick: int = 0) -> torch.Tensor:
    element = torch.arange(len(c))
    return dynamics.matched_beta(c, *rest, lambda p, q: beta_variates(p, q, noise(tick), element))


def assert_moments(values: np.ndarray, mean: float, variance: float) -> None:
    """Both within three standard errors; that of the variance comes from the sample's fourth moment."""
    count = len(values)
    assert abs(values.mean() - mean) <= 3 * math.sqrt(variance / count) + 1e-7
    centred = (values - mean) ** 2
    assert abs(centred.mean() - variance) <= 3 * centred.std() / math.sqrt(count) + 1e-12


@pytest.mark.parametrize("dt", STEPS)
@pytest.mark.parametrize(("c", "gain", "loss", "sigma"), SETS)
def test_a_matched_step_has_the_exact_mean_and_variance(
    c: float, gain: float, loss: float, sigma: float, dt: float
) -> None:
    start, *rest = f64(c, gain, loss, sigma, dt)
    values = beta_step(start, rest, tick=round(100 * dt)).numpy()
    assert ((values >= 0) & (values <= 1)).all()
    assert_moments(values, *moments(c, gain, loss, sigma, dt))


@pytest.mark.parametrize(("c", "gain", "loss", "sigma"), SETS)
def test_the_exact_moments_are_those_of_the_differential_equation(
    c: float, gain: float, loss: float, sigma: float
) -> None:
    """Against many small Euler steps of dm/dt and dv/dt."""
    m, v, n, total = c, 0.0, 200_000, 20.0
    for _ in range(n):
        h = total / n
        m, v = (
            m + h * (gain * (1 - m) - loss * m),
            v + h * (-(2 * (gain + loss) + sigma**2) * v + sigma**2 * m * (1 - m)),
        )
    tensors = [torch.tensor(x, dtype=torch.float64) for x in (c, gain, loss)]
    dt, s = torch.tensor(total, dtype=torch.float64), torch.tensor(sigma, dtype=torch.float64)
    assert float(dynamics.mean(*tensors, dt)) == pytest.approx(m, abs=2e-5)
    assert float(dynamics.variance(*tensors, s, dt)) == pytest.approx(v, rel=1e-3, abs=1e-9)


@pytest.mark.parametrize("c", [0.0, 1e-30, 1e-9, 0.3, 0.999, 1.0])
@pytest.mark.parametrize("sigma", [0.0, 0.005, 0.1, 0.4])
def test_the_moments_are_exact_also_where_c_hardly_moves(c: float, sigma: float) -> None:
    """A variance that is rounded to 0 would give c its tiny mean, where almost every draw is 0: the anchors of such
    experiences would follow the network too slowly. The reference computes with 60 digits."""
    for gain, loss, dt in product((0.0, 1e-17, 5e-12, 1e-6, 0.02, 1.0), (0.0, 1e-12, 0.005, 1.0), (0.001, 0.01, 1.0)):
        m, v = moments(c, gain, loss, sigma, dt)
        start, up, down, s, time = (torch.tensor(x, dtype=torch.float64) for x in (c, gain, loss, sigma, dt))
        assert float(dynamics.mean(start, up, down, time)) == pytest.approx(m, rel=1e-14, abs=0)
        assert float(dynamics.variance(start, up, down, s, time)) == pytest.approx(v, rel=1e-6, abs=1e-60)


@pytest.mark.parametrize("dt", STEPS)
@pytest.mark.parametrize(("c", "gain", "loss", "sigma"), SETS)
def test_the_memory_moves_c_according_to_the_law(c: float, gain: float, loss: float, sigma: float, dt: float) -> None:
    """All TD errors are equal, so the utility is 1 and gain = α; the leak is the loss."""
    unit, slots = 1000, 4000
    params = CrystalParams.repaired(
        alpha=gain, leak=loss, sigma=sigma, w1=1.0, w2=0.0, w3=0.0, scale="q95", interference="none", phases=False,
        time_unit=unit, boost=False,
    )  # fmt: skip
    memory = CrystalMemory(slots, obs=(1,), action=1, envs=slots, params=params, seed=7)
    zeros = np.zeros((slots, 1), np.float32)
    step = Transition(zeros, np.zeros(slots, int), np.zeros(slots), zeros, np.zeros(slots, bool))
    memory.add(step, crystallization=c)
    memory.time += round(dt * unit)
    memory.consolidate(lambda batch: torch.ones_like(batch.reward))
    assert_moments(memory.ledger.c[0].double().numpy(), *moments(float(np.float32(c)), gain, loss, sigma, dt))


@pytest.mark.parametrize(("gain", "loss", "sigma"), [(0.1, 0.1, 0.3), (0.3, 0.02, 0.1), (0.02, 0.03, 0.4)])
def test_at_stationarity_c_is_beta_distributed(gain: float, loss: float, sigma: float) -> None:
    c, *rest = f64(0.5, gain, loss, sigma, 4.0)
    for tick in range(60):
        c = beta_step(c, rest, tick)
    law = stats.beta(2 * gain / sigma**2, 2 * loss / sigma**2)
    # The matched Beta step is off by up to .016 where a shape is below one.
    assert stats.kstest(c.numpy(), law.cdf).statistic < 0.016
    assert_moments(c.numpy(), law.mean(), law.var())


def test_without_interference_c_reaches_one_and_stays_there() -> None:
    c, *rest = f64(0.0, 0.05, 0.0, 0.05, 10.0)
    for tick in range(80):
        c = beta_step(c, rest, tick)
    absorbed = c == 1
    assert float(absorbed.double().mean()) > 0.999
    again = beta_step(c, rest, 81)
    assert bool((again[absorbed] == 1).all())


def test_without_utility_c_tends_to_zero() -> None:
    c, *rest = f64(1.0, 0.0, 0.05, 0.05, 10.0)
    for tick in range(80):
        c = beta_step(c, rest, tick)
    assert float((c < 1e-12).double().mean()) > 0.999


def test_overwhelming_noise_drives_c_to_the_two_ends_in_the_right_proportion() -> None:
    c, *rest = f64(0.3, 0.0, 0.0, 10.0, 5.0)
    values = beta_step(c, rest)
    assert bool(((values < 1e-9) | (values > 1 - 1e-9)).all())
    assert float(values.mean()) == pytest.approx(0.3, abs=3 * math.sqrt(0.21 / COUNT))


def test_without_noise_c_follows_the_differential_equation() -> None:
    c, *rest = f64(0.2, 0.07, 0.03, 0.0, 3.0)
    values = beta_step(c, rest)
    target = 0.7
    assert torch.allclose(values, torch.full_like(values, target + (0.2 - target) * math.exp(-0.3)), atol=1e-12)


def test_eulers_mean_is_within_one_percent_at_the_papers_default() -> None:
    """From c = 0 over 400 consolidations at U = .5 and mean I = .1; without noise c is its own mean."""
    c, gain, loss, sigma, dt, normal = (torch.tensor(x, dtype=torch.float64) for x in (0, 0.025, 0.0005, 0, 1, 0))
    worst = 0.0
    for n in range(1, 401):
        c = dynamics.euler_maruyama(c, gain, loss, sigma, dt, normal)
        worst = max(worst, abs(float(c) - moments(0.0, 0.025, 0.0005, 0.0, n)[0]))
    assert 0.004 < worst < 0.01  # exact: .0047


def test_eulers_noise_matches_the_law_for_small_steps() -> None:
    c, gain, loss, sigma, dt = f64(0.5, 0.1, 0.1, 0.3, 0.05)
    element = 2 * torch.arange(COUNT)
    for tick in range(40):
        normal = normal_from_bits(bits(noise(tick), element), bits(noise(tick), element + 1))
        c = dynamics.euler_maruyama(c, gain, loss, sigma, dt, normal)
    mean, variance = moments(0.5, 0.1, 0.1, 0.3, 2.0)
    assert float(c.mean()) == pytest.approx(mean, abs=3 * math.sqrt(variance / COUNT))
    assert float(c.var()) == pytest.approx(variance, rel=0.04)


def test_euler_stays_in_the_unit_interval() -> None:
    c, gain, loss, sigma, dt = f64(0.01, 0.1, 0.1, 3.0, 1.0)
    element = 2 * torch.arange(COUNT)
    normal = normal_from_bits(bits(noise(0), element), bits(noise(0), element + 1))
    c = dynamics.euler_maruyama(c, gain, loss, sigma, dt, normal)
    assert float(c.min()) == 0
    assert float(c.max()) <= 1


PHASE_MOVES = [
    (1, 0.29, 1), (1, 0.31, 2), (1, 0.71, 3), (2, 0.26, 2), (2, 0.24, 1), (2, 0.71, 3),
    (3, 0.66, 3), (3, 0.64, 2), (3, 0.2, 1), (0, 0.9, 0),
]  # fmt: skip


@pytest.mark.parametrize(("phase", "c", "wanted"), PHASE_MOVES)
def test_phases_follow_c_with_hysteresis(phase: int, c: float, wanted: int) -> None:
    enter = torch.tensor(0.3), torch.tensor(0.7)
    leave = torch.tensor(0.25), torch.tensor(0.65)
    got = dynamics.next_phase(torch.tensor([phase], dtype=torch.uint8), torch.tensor([c]), enter, leave)
    assert got.tolist() == [wanted]
