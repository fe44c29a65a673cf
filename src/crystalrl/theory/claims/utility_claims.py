"""Claims about utility and interference: what they measure, and what they achieve."""

from __future__ import annotations

import numpy as np

from crystalrl.theory.claims.claim import DEFAULT, THRESHOLDS, Claim, Place, contradicted
from crystalrl.theory.law import Crystallization

LIQUID_SHARE = 0.70
"""Share of a batch that is drawn from liquid (Algorithm 2)."""


def largest_boost(horizon: int, discount: float, discounted: bool) -> float:
    """G/(R_max/(1−γ)) of an episode with the largest reward at each of `horizon` steps."""
    weights = discount ** np.arange(horizon) if discounted else np.ones(horizon)
    return float(weights.sum() * (1 - discount))


def _everything_crystallises() -> str:
    times = [float(Crystallization(utility=u, interference=0.0).time_to(0.7, 0.0)) for u in (0.5, 0.1, 0.01)]
    return "I = 0: crystal after " + " / ".join(f"{t:.0f}" for t in times) + " consolidations for U = .5 / .1 / .01"


def _raw_utility() -> str:
    limits = [tau / DEFAULT.alpha for tau in (*THRESHOLDS, 1.0)]
    return (
        f"|δ| and V have no upper bound; with α = .05 and c = 0, one step reaches glass for U > {limits[0]:.0f}, "
        f"crystal for U > {limits[1]:.0f}, c > 1 for U > {limits[2]:.0f}"
    )


def _spike() -> str:
    steps = int(np.ceil(float(Crystallization(utility=1.0, interference=0.0).time_to(THRESHOLDS[1], 0.0))))
    return f"{steps} consolidations at U = 1; one if U > {THRESHOLDS[1] / DEFAULT.alpha:.0f}, which unscaled |δ| allows"


def _novelty() -> str:
    time = float(Crystallization(utility=0.3, interference=0.0).time_to(0.7, 0.0))
    return (
        f"n(s, a) = 1 for every continuous pair: N = {np.exp(-1 / 50):.2f} at Z = 50 (Z is not given), so U > .29 and "
        f"everything crystallizes within about {time:.0f} consolidations"
    )


def _exists() -> str:
    flagged = 1 - (1 - 0.01) ** 500
    return f"with 500 neighbours and a chance of 1 % per neighbour, P[I = 1] = {flagged:.3f}; ε and δ_r are not given"


def _boost() -> str:
    plain, discounted = ([largest_boost(h, 0.99, kind) for h in (200, 1000)] for kind in (False, True))
    return (
        f"up to {plain[0]:.0f} and {plain[1]:.0f} for 200 and 1000 steps, γ = .99, if G is the plain sum; "
        f"{discounted[0]:.2f} and {discounted[1]:.2f} if it is discounted; lost when Algorithm 1 next computes U"
    )


def _oversampling() -> str:
    glass = np.sqrt(THRESHOLDS[1] / THRESHOLDS[0])
    return (
        f"the weight in liquid ({LIQUID_SHARE:.0%} of a batch) is PER's, without V; in glass V acts only through √c, "
        f"by at most ×{glass:.2f}"
    )


def _negative_utility() -> str:
    drift = DEFAULT.alpha * -1
    return f"U = −1 gives drift {drift:.2f} at c = 0: c leaves [0, 1] and never rises; the library rejects U < 0"


def _certificate() -> str:
    reach = contradicted(1.0).stationary().mean
    return f"no experiment; c is no property of the policy, and under I = 1 c* ≤ {reach:.3f} even at U = 1"


CLAIMS = (
    Claim(
        Place("Utility and crystals", "II", 183, "locks in experiences according to their long-term value"),
        "experiences are locked in by long-term value",
        "conditional",
        _everything_crystallises,
        "with I = 0 utility sets only the speed: select by admission, or add a leak",
    ),
    Claim(
        Place("Utility in [0, 1]", "III-A", 219, "Multi-objective utility of $e_i$"),
        "U ∈ [0, 1], with unscaled |δ|",
        "underspecified",
        _raw_utility,
        "scale |δ| into [0, 1]",
    ),
    Claim(
        Place("Spikes", "VIII-C", 1676, "a single high-TD-error experience does not immediately crystallize"),
        "one high TD error does not crystallize an experience at once",
        "conditional",
        _spike,
        "needs scaled |δ|",
    ),
    Claim(
        Place("eq. nov", "III-C", 282, "is the visitation count of $(s,a)$, $Z>0$ a normalisation"),
        "counts measure novelty",
        "underspecified",
        _novelty,
        "count visits to grid cells, or use distances",
    ),
    Claim(
        Place("eq. interf", "III-C", 301, r"\mathbf{1}\bigl[\exists\, e_j:"),
        "one contradicting neighbour flags interference",
        "underspecified",
        _exists,
        "a majority of newer neighbours",
    ),
    Claim(
        Place("Alg. 3, boost", "IV-E", 979, r"Boost $U_i$ by $G_{\mathrm{ep}}/(R_{\max}/(1-\gamma))$"),
        "episode returns raise utility",
        "conditional",
        _boost,
        "bounded if G is the discounted return; keep it as a term of U",
    ),
    Claim(
        Place("Oversampling", "VIII-C", 1671, "this reduces oversampling of rare, narrow corridors"),
        "V reduces oversampling",
        "false",
        _oversampling,
        "V enters no sampling weight",
    ),
    Claim(
        Place("Safe RL", "IX-B", 1861, "high negative utility and forced to crystallize"),
        "negative utility forces crystallization",
        "false",
        _negative_utility,
        "U in [0, 1]",
    ),
    Claim(
        Place("Safe RL, certificate", "IX-B", 1864, "provide a concrete, theoretically grounded safety certificate"),
        "c > .95 certifies safety",
        "unverifiable",
        _certificate,
        "test the policy",
    ),
)
