"""Claims about the statistical-physics interpretation and the discretisation."""

from __future__ import annotations

import numpy as np

from crystalrl.theory.claims.claim import DEFAULT, Claim, contradicted
from crystalrl.theory.law import Crystallization
from crystalrl.theory.paper import paper_gibbs_weight
from crystalrl.theory.rates import Rates
from crystalrl.theory.samplers import Trial, measure


def _langevin() -> str:
    law, c, width = Crystallization(sigma=0.1), 0.4, 1e-6
    slope = float(law.potential(c + width).langevin - law.potential(c - width).langevin) / (2 * width)
    drift = law.rates.gain * (1 - c) - law.rates.loss * c
    return f"−D_L F′ at c = .4: {-(law.sigma**2) * c * (1 - c) / 2 * slope:.6f}; drift {drift:.6f}"


def _gibbs() -> str:
    law, c = Crystallization(sigma=0.1), np.array([0.9, 0.99])
    printed = paper_gibbs_weight(law.rates, c)
    density = law.stationary().pdf(c)
    return f"ratio of the density at .99 to .9: {density[1] / density[0]:.2f}; of e^(−F): {printed[1] / printed[0]:.2f}"


def _quasi() -> str:
    law = contradicted(0.05)
    cost = float(law.potential(0.3).quasi)
    laws = [(sigma, contradicted(0.05, sigma).stationary()) for sigma in (1e-3, 3e-4)]
    tails = [-(sigma**2) * float(limit.log10_cdf(0.3)) * np.log(10) for sigma, limit in laws]
    return f"V(.3) = {cost:.3e}; −σ² ln P[c < .3] = {tails[0]:.3e} (σ = 1e-3), {tails[1]:.3e} (σ = 3e-4)"


def _one_minimum() -> str:
    c = np.linspace(0.001, 0.999, 2000)
    quasi = contradicted(0.2).potential(c).quasi
    minima = int(np.sum((quasi[1:-1] < quasi[:-2]) & (quasi[1:-1] < quasi[2:])))
    return f"{minima} minimum, at c* = {float(c[np.argmin(quasi)]):.2f}; F = +∞ at both ends"


def _u_shape() -> str:
    shape = Crystallization(sigma=0.05).stationary()
    density = shape.pdf(np.array([0.5, 0.9, 0.99]))
    low, high = shape.shapes or (0.0, 0.0)
    return (
        f"A = {low:.0f}, B = {high:.1f} < 1: density {density[0]:.1e} < {density[1]:.2f} < {density[2]:.2f}, monotone"
    )


def _small_sigma() -> str:
    limit = min(np.sqrt(2 * DEFAULT.rates.gain), np.sqrt(2 * DEFAULT.rates.loss))
    return f"the bound on σ is {limit:.4f} at the defaults and 0 for every experience with I = 0"


def _strong_order() -> str:
    orders = [f"{shape:g}: {strong_order(shape):.2f}" for shape in (4.0, 1.0, 0.3, 0.05)]
    return "measured strong order by A = B — " + ", ".join(orders)


def strong_order(shape: float) -> float:
    """Slope of the root-mean-square error of clipped Euler at t = 1, σ = 1, steps 2⁻⁴ … 2⁻⁷ against 2⁻¹⁰."""
    rng = np.random.default_rng(0)
    finest, paths = 10, 1000
    noise = rng.standard_normal((2**finest, paths)) * 2 ** (-finest / 2)
    ends = {}
    for level in (4, 5, 6, 7, finest):
        c = np.full(paths, 0.5)
        for increment in noise.reshape(2**level, -1, paths).sum(axis=1):
            c = np.clip(c + 2.0**-level * shape / 2 * (1 - 2 * c) + np.sqrt(c * (1 - c)) * increment, 0, 1)
        ends[level] = c
    errors = [np.sqrt(np.mean((ends[level] - ends[finest]) ** 2)) for level in (4, 5, 6, 7)]
    return float(np.polyfit(-np.arange(4, 8) * np.log(2), np.log(errors), 1)[0])


def _clip() -> str:
    rough = Crystallization(sigma=0.2, utility=0.02, interference=1.0).rates
    row = measure(rough, "euler", 1.0, Trial(0.0, 300.0, 4000))
    return f"σ = .2, U = .02, I = 1: clipping alone shifts the mean by {row.mean_error:+.2f} after 300 steps"


def _relaxation_time() -> str:
    return f"1/λ = {1 / DEFAULT.rates.rate:.1f} at Ū = .5; 20 only for U = 1, I = 0"


def euler_mean_error(rates: Rates) -> float:
    """Largest mean error of Euler with Δt = 1 from c0 = 0."""
    steps = np.arange(1, 400)
    return float(np.abs((1 - rates.rate) ** steps - np.exp(-rates.rate * steps)).max() * rates.target)


def _one_percent() -> str:
    fast = Crystallization(alpha=0.1, beta=0.02, sigma=0.01, utility=1.0)
    inflation = 1 / (1 - DEFAULT.rates.rate / 2) - 1
    return (
        f"mean error {euler_mean_error(DEFAULT.rates):.4f}; 'fast' preset: {euler_mean_error(fast.rates):.3f}, α = .5: "
        f"{euler_mean_error(Crystallization(alpha=0.5).rates):.2f}; variance +{inflation:.1%}"
    )


CLAIMS = (
    Claim("Prop. grad_flow", "drift = −D_L F′ and noise = √(2D_L)", "true", _langevin, "law.potential(c).langevin"),
    Claim(
        "Prop. grad_flow, Gibbs",
        "e^(−F) is the Beta density",
        "false",
        _gibbs,
        "p ∝ e^(−F)/D_L: law.potential(c).gibbs",
    ),
    Claim(
        "Quasi-potential",
        "F is the Freidlin–Wentzell quasi-potential",
        "conditional",
        _quasi,
        "V = σ²[F(c) − F(c*)]: law.potential(c).quasi",
    ),
    Claim(
        "Potential landscape",
        "minima at the two absorbing ends; noise escapes local optima",
        "false",
        _one_minimum,
        "strictly convex for A, B > 0: no bistability",
    ),
    Claim(
        "Phase interpretation",
        "U-shaped when A < 1 or B < 1",
        "false",
        _u_shape,
        "U-shaped iff both are < 1; an interior mode needs both > 1",
    ),
    Claim(
        "Choice of σ",
        "σ far below min(√2αŪ, √2βĪ) keeps the law unimodal",
        "conditional",
        _small_sigma,
        "never satisfiable for experiences without interference",
    ),
    Claim(
        "Prop. disc_error, strong",
        "strong order ½",
        "conditional",
        _strong_order,
        "needs A, B ≥ 1; lower where the ends are hit",
    ),
    Claim(
        "Prop. disc_error, clipping",
        "clipping costs O(Δt^1.5) per step",
        "false",
        _clip,
        "the matched Beta step: exact mean and variance, never clipped",
    ),
    Claim("Relaxation time", "1/λ ≈ 20 steps at the defaults", "false", _relaxation_time, "1/(αU + βI)"),
    Claim(
        "Prop. disc_error, weak",
        "Δt = 1 gives under 1 % weak error",
        "conditional",
        _one_percent,
        "largest mean error ≈ .184 λΔt c*",
    ),
)
