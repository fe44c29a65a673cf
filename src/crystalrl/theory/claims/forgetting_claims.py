"""Claims about forgetting and melting."""

from __future__ import annotations

import numpy as np
from scipy import optimize

from crystalrl.theory.claims.claim import Claim, Place, contradicted
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
    broken = f"τ_C = .305, c0 = .31, T = .1, σ = .05: exact {truth:.3f} > bound {bound:.3f}"
    return f"{broken}; within its range the ratio is {held:.2f}"


def _explicit() -> str:
    law, times = contradicted(0.05), np.array([1000.0, 5000.0, 50_000.0])
    truth, bound = law.forgetting(times, 0.3, 0.71), paper_explicit_bound(law.rates, times, 0.3, 0.71)
    rows = [f"T = {t:.0f}: exact {p:.4f}, bound {b:.1e}" for t, p, b in zip(times, truth.below, bound, strict=True)]
    ours = (truth.sub_gaussian[1], truth.cantelli[1], truth.comparison[1])
    return "; ".join(rows) + "; ours at 5000: {:.3f} (sub-Gaussian), {:.3f} (Cantelli), {:.4f} (I_τ/I_c0)".format(*ours)


def _step_four() -> str:
    edge = optimize.brentq(lambda x: (1 - np.exp(-x)) ** 2 - x * np.exp(-x), 0.1, 2.0)
    return f"fails for x = λT < {edge:.4f}: at λ = .03, for T < {edge / 0.03:.0f} consolidations"


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
    law = contradicted(0.0)
    times, state = law.time_to([0.7, 0.3], 0.98), float(law.mean(20.0, 0.98))
    slow = f"mean time to τ_C 10^{powers[0]:.1f} (U = .3), 10^{powers[1]:.0f} (U = .5)"
    fast = f"U = 0 from c = .98: τ_C after {times[0]:.0f}, τ_L after {times[1]:.0f}"
    return f"I = 1 for ever melts only U < {edge:.4f}; {slow}; {fast}, but the counter evicts at 20, c = {state:.3f}"


MOVES = (("liquid", "glass"), ("glass", "crystal"), ("glass", "liquid"))
"""The transfers of Algorithm 1."""


def reachable(phase: str) -> set[str]:
    """The phases that Algorithm 1 can move an experience to from here, in any number of consolidations."""
    found = {phase}
    while new := {to for source, to in MOVES if source in found} - found:
        found |= new
    return found - {phase}


def _back_to_glass() -> str:
    time = float(contradicted(0.7 / 3).mean_first_passage(0.65, 0.7))
    return (
        f"by Algorithm 1 glass becomes {' or '.join(sorted(reachable('glass')))}, crystal {len(reachable('crystal'))} "
        f"other phases; with a band of .05, a crystal at c* = τ_C would leave after {time:.0e} consolidations"
    )


CLAIMS = (
    Claim(
        Place("eq. forget_poincare", "III-E", 618, r"This bound is \emph{uniform in $T$}"),
        "P[c(T) < τ_L] ≤ σ²/(8λ(c*−τ_L)²)",
        "false",
        _primary,
        "law.forgetting; holds if c* > τ_L and (c0 ≥ c* or (c*−c0)/(c*−τ_L) ≤ .514)",
    ),
    Claim(
        Place("eq. forget_poincare, range", "III-E", 608, r"Let $c_i(0)=c_0\in(\tau_C,1)$ (already crystallized)"),
        "valid for every start above τ_C",
        "conditional",
        _primary_range,
        "holds for τ_L = .3, τ_C = .7 if c* > τ_L; not for τ_C near τ_L",
    ),
    Claim(
        Place("eq. forget_bound", "III-E", 622, "(Supplementary $T$-explicit bound.)"),
        "P[c(T) < τ_L] ≤ exp(−2λ(c0−τ_L)²/σ²T)·e^(−λT/2)",
        "false",
        _explicit,
        "it tends to 0, the exact value to I_τL(A, B); law.forgetting has three valid bounds",
    ),
    Claim(
        Place("Thm forgetting, step 4", "III-E", 671, r"Using $(1-e^{-x})^2\ge xe^{-x}$ for $x=\lambda_i T>0$"),
        "(1−e^(−x))² ≥ x·e^(−x) for x > 0",
        "conditional",
        _step_four,
        "needs a long enough T",
    ),
    Claim(
        Place(
            "Forgetting, 50 000 steps", "VIII-D", 1687, "per-experience forgetting probability is less than $10^{-4}$"
        ),
        "P < 1e-4 for tasks under 50 000 steps",
        "false",
        _one_in_ten_thousand,
        "it depends on U: law.forgetting(T, τ, c0).certain flags c* < τ",
    ),
    Claim(
        Place("Forgetting, rule", "VIII-D", 1699, r"setting $\tau_C\ge0.7$ and $\sigma\le0.01$"),
        "τ_C ≥ .7 and σ ≤ .01 guarantee P < 1e-4",
        "false",
        _sigma_rule,
        "a condition on U, not on σ",
    ),
    Claim(
        Place("Forgetting, derivation", "VIII-D", 1698, "both bounds provide actionable guarantees"),
        "1e-4 follows from the bounds",
        "false",
        _own_bound,
        "law.forgetting",
    ),
    Claim(
        Place(
            "Forgetting, name",
            "VIII-D",
            1683,
            "provides an exponential bound on the probability of catastrophic forgetting",
        ),
        "P[c(T) < τ_L] is called the probability of forgetting",
        "conditional",
        _ever,
        "it looks at time T only: law.forgetting(...).ever",
    ),
    Claim(
        Place("Appendix, factors", "App. B", 2014, "both factors are negligible"),
        "both factors of eq. forget_bound are negligible",
        "false",
        _appendix,
        "only the wrong factor is small",
    ),
    Claim(
        Place(
            "Forgetting, pessimism",
            "VIII-D",
            1691,
            "domination and is pessimistic because it ignores the positive drift",
        ),
        "eq. forget_bound ignores the positive drift",
        "false",
        _drift,
        "it uses the drift, but wrongly",
    ),
    Claim(
        Place(
            "Selective melting", "VIII-A", 1622, r"the decrystallization term $\beta c_i I_i$ dissolves the experience"
        ),
        "interference dissolves crystals",
        "conditional",
        _melting,
        "needs U < βτ_C/(α(1−τ_C)), and an eviction limit above 67",
    ),
    Claim(
        Place("Alg. 1, transfers", "VIII-A", 1623, "back into the glass phase, where it can be revised"),
        "a dissolved crystal goes back to glass",
        "false",
        _back_to_glass,
        "Algorithm 1 has no such move: add one below τ_C − .05",
    ),
)
