"""Claims about forgetting and melting."""

from __future__ import annotations

import numpy as np
from scipy import optimize

from crystalrl.theory.claims.claim import Claim, contradicted
from crystalrl.theory.law import Crystallization
from crystalrl.theory.paper import paper_explicit_bound, paper_primary_bound


def _primary() -> str:
    weak = contradicted(0.02)
    bound, truth = float(paper_primary_bound(weak.rates, 0.3)), float(weak.forgetting(50_000, 0.3, 0.71).below)
    return f"U = .02, I = 1: c* = {weak.stationary().mean:.3f}, bound {bound:.3f}, exact {truth:.3f}"


def _primary_range() -> str:
    law = Crystallization(utility=0.97, beta=0.0015, interference=1.0, sigma=0.05)
    bound, truth = float(paper_primary_bound(law.rates, 0.3)), float(law.forgetting(0.1, 0.3, 0.31).below)
    inside = contradicted(0.05)
    held = float(inside.forgetting(5000, 0.3, 0.71).below) / float(paper_primary_bound(inside.rates, 0.3))
    return f"c0 = .31, T = .1, σ = .05: exact {truth:.3f} > bound {bound:.3f}; within its range the ratio is {held:.2f}"


def _explicit() -> str:
    law, times = contradicted(0.05), np.array([1000.0, 5000.0, 50_000.0])
    truth, bound = law.forgetting(times, 0.3, 0.71).below, paper_explicit_bound(law.rates, times, 0.3, 0.71)
    return "; ".join(f"T = {t:.0f}: exact {p:.4f}, bound {b:.1e}" for t, p, b in zip(times, truth, bound, strict=True))


def _replacement() -> str:
    result = contradicted(0.05).forgetting(5000, 0.3, 0.71)
    return (
        f"U = .05, T = 5000: exact {float(result.below):.4f}; sub-Gaussian {float(result.sub_gaussian):.3f}, Cantelli "
        f"{float(result.cantelli):.3f}, I_τ/I_c0 {float(result.comparison):.4f}"
    )


def _one_in_ten_thousand() -> str:
    values = [f"U = {u:g}: {float(contradicted(u).forgetting(250, 0.3, 0.98).below):.2f}" for u in (0.0, 0.02)]
    late = float(contradicted(0.04).forgetting(50_000, 0.3, 0.71).below)
    return f"after 250 consolidations from c = .98 — {', '.join(values)}; U = .04 in the long run: {late:.3f}"


def utility_for(probability: float, sigma: float) -> float:
    """Utility at which the stationary P[c < .3] under permanent interference equals `probability`."""

    def excess(utility: float) -> float:
        return float(contradicted(utility, sigma).stationary().log10_cdf(0.3) - np.log10(probability))

    return float(optimize.brentq(excess, 0.03, 0.2))


def _sigma_rule() -> str:
    needed = [utility_for(1e-4, sigma) for sigma in (0.005, 0.01)]
    return f"stationary P < 1e-4 needs U > {needed[0]:.4f} (σ = .005), U > {needed[1]:.4f} (σ = .01)"


def _own_bound() -> str:
    cases = ((0.5, 0.005), (1.0, 0.005), (1.0, 0.01))
    half, full, loud = (float(paper_primary_bound(contradicted(u, s).rates, 0.3)) for u, s in cases)
    return f"the printed bound gives {half:.2e} (U = .5), {full:.2e} (U = 1), {loud:.1e} (σ = .01): never < 1e-4"


def _ever() -> str:
    result = contradicted(0.06).forgetting([5000, 20_000], 0.3, 0.71)
    ever = f"{result.ever[0]:.1%} / {result.ever[1]:.1%}"
    return f"U = .06: {result.below[0]:.1e} are below at T, but {ever} were below at some time within 5000 / 20 000"


def _appendix() -> str:
    rate, gap, horizon = 0.0505, 0.4, 5e4
    factor = np.exp(-2 * rate * gap**2 / (0.005**2 * horizon))
    return f"first factor exp(−2λε²/σ²T) = {factor:.3f}; λ = .0505 is for U = 1, Ī = .1, but the theorem needs I = 1"


def _drift() -> str:
    law = contradicted(0.5)
    ignoring = paper_explicit_bound(law.rates, 50.0, 0.3, 0.71)
    factor = np.exp(-law.rates.rate * 25)
    return (
        f"its factor e^(−λT/2) comes from the drift: alone it is {factor:.2f} at T = 50 (bound {float(ignoring):.0e})"
    )


def _melting() -> str:
    edge = 0.005 * 0.7 / (0.05 * 0.3)
    powers = [float(contradicted(u).log10_mean_first_passage(0.7, 0.95)) for u in (0.3, 0.5)]
    times = f"10^{powers[0]:.1f} (U = .3), 10^{powers[1]:.0f} (U = .5)"
    return f"permanent I = 1 melts only U < {edge:.4f}; mean time to τ_C: {times}"


def _counter() -> str:
    law = contradicted(0.0)
    times = law.time_to([0.7, 0.3], 0.98)
    state = float(law.mean(20.0, 0.98))
    reached = f"τ_C after {times[0]:.0f}, τ_L after {times[1]:.0f}"
    return f"U = 0 from c = .98: {reached}; the counter evicts at 20, where c = {state:.3f}"


def _certificate() -> str:
    return f"under I = 1, c* ≤ {contradicted(1.0).stationary().mean:.3f} even at U = 1: .95 is out of reach"


CLAIMS = (
    Claim(
        "eq. forget_poincare",
        "P[c(T) < τ_L] ≤ σ²/(8λ(c*−τ_L)²)",
        "false",
        _primary,
        "law.forgetting; holds if c* > τ_L and (c0 ≥ c* or (c*−c0)/(c*−τ_L) ≤ .514)",
    ),
    Claim(
        "eq. forget_poincare, range",
        "valid for every crystallized start",
        "conditional",
        _primary_range,
        "holds for τ_L = .3, τ_C = .7; not for τ_C = .5",
    ),
    Claim(
        "eq. forget_bound",
        "P[c(T) < τ_L] ≤ exp(−2λ(c0−τ_L)²/σ²T)·e^(−λT/2)",
        "false",
        _explicit,
        "it tends to 0, the exact value to I_τL(A, B); law.forgetting",
    ),
    Claim(
        "Thm forgetting, replacement",
        "(ours) three valid bounds",
        "true",
        _replacement,
        "smallest of exp(−4λ(m−τ)²/σ²(1−e^(−2λT))), v/(v+(m−τ)²), I_τ/I_c0",
    ),
    Claim(
        "Forgetting, 50 000 steps",
        "P < 1e-4 for tasks under 50 000 steps",
        "false",
        _one_in_ten_thousand,
        "it depends on U: law.forgetting(T, τ, c0).certain flags c* < τ",
    ),
    Claim(
        "Forgetting, rule",
        "τ_C ≥ .7 and σ ≤ .01 guarantee P < 1e-4",
        "false",
        _sigma_rule,
        "a condition on U, not on σ",
    ),
    Claim("Forgetting, derivation", "1e-4 follows from the bounds", "false", _own_bound, "law.forgetting"),
    Claim("Forgetting, meaning", "P[c(T) < τ_L] measures forgetting", "conditional", _ever, "law.forgetting(...).ever"),
    Claim("Appendix, factors", "both factors are negligible", "false", _appendix, "only the wrong factor is small"),
    Claim(
        "Discussion, pessimism",
        "the bound ignores the positive drift",
        "false",
        _drift,
        "it uses the drift, but wrongly",
    ),
    Claim(
        "Selective melting",
        "interference dissolves crystals into glass",
        "false",
        _melting,
        "only for U < βτ_C/(α(1−τ_C)); raise β, or use another melting rule",
    ),
    Claim(
        "Alg. 1, eviction counter",
        "crystals melt before they are evicted",
        "false",
        _counter,
        "set the limit above 67",
    ),
    Claim("Safe RL, certificate", "c > .95 certifies safety", "false", _certificate, "c says nothing about the policy"),
)
