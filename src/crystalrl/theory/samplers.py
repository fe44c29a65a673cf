"""One-step samplers, compared with the exact law as the step Δt grows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from crystalrl import dynamics
from crystalrl.theory import moments, transient
from crystalrl.theory.moments import tensor
from crystalrl.theory.rates import Array, Rates

Sampler = Callable[[Rates, Array, float, np.random.Generator], Array]


def euler(rates: Rates, c: Array, dt: float, rng: np.random.Generator) -> Array:
    """Euler–Maruyama with clipping, as in Algorithm 1: biased mean, inflated variance, biased at the ends."""
    normal = tensor(rng.standard_normal(c.shape))
    stepped = dynamics.euler_maruyama(tensor(c), *_constants(rates), tensor(dt), normal)
    return np.asarray(stepped.numpy())


def matched_beta(rates: Rates, c: Array, dt: float, rng: np.random.Generator) -> Array:
    """The Beta distribution with the exact mean and variance of the step, for every Δt."""

    def draw(p: torch.Tensor, q: torch.Tensor) -> torch.Tensor:
        # Shapes below 1e-10 overflow NumPy's sampler; there the variate is 0 or 1 to float64 accuracy anyway.
        return tensor(rng.beta(np.maximum(p.numpy(), 1e-10), np.maximum(q.numpy(), 1e-10)))

    return np.asarray(dynamics.matched_beta(tensor(c), *_constants(rates), tensor(dt), draw).numpy())


def beta_binomial(rates: Rates, c: Array, dt: float, rng: np.random.Generator) -> Array:
    """L ~ Bin(m, c), c′ ~ Beta(A + L, B + m − L) with m = (A + B)ρ/(1 − ρ) randomly rounded, ρ = e^(−λΔt).

    Exact mean, stationary distribution and atoms; the variance is off by O(Δt²). Without drift m = 2/(σ²Δt).
    """
    if rates.noise == 0:
        raise ValueError("sigma: wanted a number > 0 for the Beta-binomial step, got 0")
    a, b = rates.shapes
    lineages = (a + b) / np.expm1(rates.rate * dt) if rates.rate > 0 else 2 / (rates.noise * dt)
    count = np.floor(lineages + rng.random(c.shape)).astype(np.int64)
    hits = rng.binomial(count, c)
    p, q = a + hits, b + count - hits
    drawn = rng.beta(np.where(p > 0, p, 1.0), np.where(q > 0, q, 1.0))
    return np.where(q <= 0, np.where(p <= 0, c, 1.0), np.where(p <= 0, 0.0, drawn))


SAMPLERS: dict[str, Sampler] = {"euler": euler, "matched Beta": matched_beta, "Beta-binomial": beta_binomial}


def _constants(rates: Rates) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    return tensor(rates.gain), tensor(rates.loss), tensor(rates.sigma)


@dataclass(frozen=True, slots=True)
class Comparison:
    """One sampler at one Δt against the law at the same final time.

    `mean_error`: sample mean minus m(t), with its standard error; `variance_ratio`: sample over exact variance;
    `distance`: Kolmogorov–Smirnov distance; `at_one`: share of samples at exactly c = 1.
    """

    sampler: str
    dt: float
    mean_error: float
    standard_error: float
    variance_ratio: float
    distance: float
    at_one: float


@dataclass(frozen=True, slots=True)
class Trial:
    """Start, final time, number of samples and seed."""

    c0: float
    horizon: float
    count: int = 20_000
    seed: int = 0


def compare(rates: Rates, steps: tuple[float, ...], trial: Trial) -> list[Comparison]:
    """Every sampler at every Δt in `steps` (each must divide the horizon)."""
    return [measure(rates, name, dt, trial) for name in SAMPLERS for dt in steps]


def measure(rates: Rates, name: str, dt: float, trial: Trial) -> Comparison:
    """One sampler run to the horizon in steps of Δt, compared with the law there."""
    times = round(trial.horizon / dt)
    if abs(times * dt - trial.horizon) > 1e-9 * trial.horizon:
        raise ValueError(f"step: wanted one that divides the horizon {trial.horizon:g}, got {dt:g}")
    rng = np.random.default_rng(trial.seed)
    c = np.full(trial.count, trial.c0)
    for _ in range(times):
        c = SAMPLERS[name](rates, c, dt, rng)
    return _against_law(rates, name, dt, c, trial)


def _against_law(rates: Rates, name: str, dt: float, c: Array, trial: Trial) -> Comparison:
    mean = float(moments.mean(rates, trial.horizon, trial.c0))
    variance = float(moments.variance(rates, trial.horizon, trial.c0))
    ordered = np.sort(c)
    share = np.arange(1, c.size + 1) / c.size
    inside = ordered < 1
    law = transient.cdf(rates, ordered, trial.horizon, trial.c0).value
    gap = np.maximum(np.abs(share - law), np.abs(share - 1 / c.size - law))
    return Comparison(
        sampler=name,
        dt=dt,
        mean_error=float(c.mean() - mean),
        standard_error=float(c.std() / np.sqrt(c.size)),
        variance_ratio=float(c.var() / variance) if variance > 0 else 1.0,
        distance=float(gap[inside].max()) if inside.any() else 0.0,
        at_one=float(np.mean(c >= 1)),
    )
