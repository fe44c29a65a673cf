"""Claims about the statistical-physics interpretation and the discretisation."""

from __future__ import annotations

import numpy as np

from crystalrl.theory.claims.claim import DEFAULT, Claim, Place, contradicted
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


def _sides() -> str:
    law = Crystallization(alpha=0.0006, beta=0.0004, sigma=0.05, utility=1.0, interference=1.0)
    low, high = law.stationary().shapes or (0.0, 0.0)
    share = law.occupancy()
    return (
        f"A = {low:.2f}, B = {high:.2f}, both < 1: crystal {share.crystal:.0%} of the time, liquid {share.liquid:.0%}"
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
    full, half = (1 / Crystallization(utility=u).rates.rate for u in (1.0, 0.5))
    return f"1/λ = {full:.1f} at U = 1, {half:.1f} at Ū = .5"


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
    Claim(
        Place("Prop. grad_flow", "III-F", 748, r"which is exactly the drift in \eqref{eq:sde}"),
        "drift = −D_L F′ and noise = √(2D_L)",
        "true",
        _langevin,
        "law.potential(c).langevin",
    ),
    Claim(
        Place("Prop. grad_flow, Gibbs", "III-F", 716, "Its unique stationary distribution is the Gibbs measure"),
        "e^(−F) is the Beta density",
        "false",
        _gibbs,
        "p ∝ e^(−F)/D_L: law.potential(c).gibbs",
    ),
    Claim(
        Place(
            "Quasi-potential", "III-F", 688, "potential is the quasi-potential of Freidlin--Wentzell large-deviation"
        ),
        "F is the Freidlin–Wentzell quasi-potential",
        "conditional",
        _quasi,
        "up to scale and offset, V = σ²[F(c) − F(c*)]: law.potential(c).quasi",
    ),
    Claim(
        Place("Potential landscape", "III-F", 699, "correspond to the two absorbing-boundary regimes"),
        "F has minima at the two absorbing ends",
        "false",
        _one_minimum,
        "strictly convex for A, B > 0: no bistability",
    ),
    Claim(
        Place("Phase interpretation", "III-F", 769, "U-shaped (bimodal) when $A_i<1$ or $B_i<1$"),
        "U-shaped when A < 1 or B < 1",
        "false",
        _u_shape,
        "U-shaped iff both are < 1; an interior mode needs both > 1",
    ),
    Claim(
        Place("Phase interpretation, sides", "III-F", 769, "The crystal-dominant regime requires $A_i>1$"),
        "crystals dominate only if A > 1, liquid only if B > 1",
        "false",
        _sides,
        "the larger of A and B decides",
    ),
    Claim(
        Place("Choice of σ", "III-F", 773, "ensures the Beta distribution is unimodal and concentrated near"),
        "σ far below min(√2αŪ, √2βĪ) keeps the law unimodal",
        "conditional",
        _small_sigma,
        "never satisfiable for experiences without interference",
    ),
    Claim(
        Place("Prop. disc_error, strong", "III-G", 780, "The Euler--Maruyama update satisfies strong order $1/2$"),
        "strong order ½",
        "conditional",
        _strong_order,
        "needs A, B ≥ 1; lower where the ends are hit",
    ),
    Claim(
        Place("Prop. disc_error, clipping", "III-G", 796, r"introduces $O((\Delta t)^{3/2})$ error per step"),
        "clipping costs O(Δt^1.5) per step",
        "false",
        _clip,
        "the matched Beta step: exact mean and variance, never clipped",
    ),
    Claim(
        Place("Relaxation time", "III-G", 801, "the mean relaxation time is"),
        "1/λ ≈ 20 steps for α = .05",
        "conditional",
        _relaxation_time,
        "needs U = 1; in general 1/(αU + βI)",
    ),
    Claim(
        Place("Prop. disc_error, weak", "III-G", 803, r"achieves $<1\%$ weak-order error"),
        "Δt = 1 gives under 1 % weak error",
        "conditional",
        _one_percent,
        "largest mean error ≈ .184 λΔt c*",
    ),
)
