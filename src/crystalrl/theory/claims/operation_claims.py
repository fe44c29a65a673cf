"""Claims about running it: contents of the phases, time scales, recommended settings."""

from __future__ import annotations

import numpy as np

from crystalrl.theory.claims.claim import DEFAULT, Claim, Place
from crystalrl.theory.law import Crystallization
from crystalrl.theory.sizing import Thresholds, selectivity

EPISODE = 200
SETTINGS = {
    "robotics": (0.10, 0.02, 0.25, 0.65, EPISODE),
    "games": (0.05, 0.005, 0.30, 0.70, EPISODE),
    "navigation": (0.01, 0.001, 0.35, 0.80, 5000 / 5),
}
"""Table impl: α, β, τ_L, τ_C, environment steps per unit of time (an episode; navigation: Δt = 5 per 5000 steps)."""


def _monitoring() -> str:
    phases = Crystallization(interference=0.0).contents(1.0, Thresholds(), 1.0)
    return (
        f"steady-state means: liquid {phases.mean[0]:.3f}, glass {phases.mean[1]:.3f}, crystal → "
        f"{DEFAULT.stationary().mean:.2f}"
    )


def _flat() -> str:
    spreads = [np.sqrt(Crystallization(sigma=s).stationary().variance) for s in (0.005, 0.02)]
    return f"the stationary std is {spreads[0]:.4f} at the default σ; a larger σ raises it ({spreads[1]:.4f} at .02)"


def _utilisation() -> str:
    inflow = DEFAULT.contents(EPISODE, Thresholds(), 0.0).number
    return f"by Little's law liquid holds {inflow[0]:.0f} at U = .5, not 62 500; 6.3 % exceeds the hard cap of 6.25 %"


def _turnover() -> str:
    kept, new = (1 - 0.003) ** 45, 1e5 / 16 * 0.003
    return f"{kept:.1%} of the store would date from tasks ≤ 5 after task 50; {new:.0f} new crystals per task (N = 1e5)"


def falling_factor(ratio: float, tau_L: float = 0.3, tau_C: float = 0.7) -> float:
    """Factor by which U must fall when glass is reached, for glass to take `ratio` times as long as liquid (I = 0)."""
    constant = np.log((1 - tau_L) / (1 - tau_C)) / -np.log1p(-tau_L)
    return float(ratio / constant)


def _timescales() -> str:
    t = DEFAULT.time_to([0.3, 0.7, 0.95], 0.0)
    return (
        f"constant U = .5: glass after {t[0] * EPISODE:,.0f}, crystal after {t[1] * EPISODE:,.0f}, .95 after "
        f"{t[2] * EPISODE:,.0f} steps, ratio 1 : {(t[1] - t[0]) / t[0]:.2f}; 1 : 10 if U is {falling_factor(10):.1f}× "
        "lower in glass"
    )


def _early() -> str:
    half, full = (float(Crystallization(utility=u).time_to(0.8, 0.0)) * EPISODE for u in (0.5, 1.0))
    return f"c > .8 after {half:,.0f} steps at U = .5, {full:,.0f} at U = 1"


def _fast() -> str:
    edges = {name: beta * high / (alpha * (1 - high)) for name, (alpha, beta, _, high, _) in SETTINGS.items()}
    return "permanent I = 1 melts only U < " + ", ".join(f"{edge:.3f} ({name})" for name, edge in edges.items())


def _slow() -> str:
    floors, steps = {}, {}
    for name, (alpha, _, low, high, unit) in SETTINGS.items():
        floors[name] = float(selectivity(alpha, low, unit, 62_500))
        steps[name] = -np.log1p(-high) / (alpha * 0.5) * unit
    later = steps["navigation"] / steps["games"]
    return (
        f"a FIFO liquid store of 62 500 promotes U > {floors['navigation']:.2f} (games: {floors['games']:.2f}); "
        f"otherwise every U > 0 crystallizes, only {later:.0f}× later"
    )


def _modalities() -> str:
    slow, fast = SETTINGS["navigation"][0], SETTINGS["robotics"][0]
    return f"Table impl has α = {slow} for slow change and {fast} for fast change, the reverse"


CLAIMS = (
    Claim(
        Place(
            "Monitoring, means", "VIII-E", 1753, r"shows $\mathrm{mean}(c_i)\approx0.25$--$0.35$ in the liquid buffer"
        ),
        "a healthy liquid mean is .25–.35",
        "false",
        _monitoring,
        "impossible in steady state with τ_L = .3",
    ),
    Claim(
        Place("Monitoring, flatness", "VIII-E", 1755, r"indicates that $\sigma$ is too large"),
        "std < .05 means that σ is too large",
        "false",
        _flat,
        "std grows with σ",
    ),
    Claim(
        Place("Utilisation", "VI-G", 1520, r"the crystal store stabilizes at $6.3\pm0.4\%$"),
        "6.3 / 31.1 / 62.6 % of capacity",
        "unverifiable",
        _utilisation,
        "law.contents",
    ),
    Claim(
        Place("Turnover", "VI-G", 1530, r"only $0.3\%$ of crystal experiences are evicted per task"),
        ".3 % of crystals leave per task",
        "unverifiable",
        _turnover,
        "no counts are published; the store would be nearly frozen",
    ),
    Claim(
        Place("Table bio", "VII-B", 1587, "AMC operates on compressed but proportional timescales"),
        "~1k / ~10k / ~50k steps, proportional to biology",
        "conditional",
        _timescales,
        "needs a falling U; law.time_to × steps per consolidation",
    ),
    Claim(
        Place("Early crystals", "VI-B", 1386, r"early ($c>0.8$ within $\sim$10k steps)"),
        "c > .8 within about 10k steps",
        "conditional",
        _early,
        "only at U near 1",
    ),
    Claim(
        Place(
            "Table impl, fast",
            "VIII-E",
            1739,
            r"higher $\alpha$ and $\beta$ allow rapid crystallization and re-melting",
        ),
        "robotics: rapid crystallization and re-melting",
        "conditional",
        _fast,
        "β/α decides what can melt",
    ),
    Claim(
        Place(
            "Table impl, slow",
            "VIII-E",
            1741,
            "produce a more conservative crystal store with fewer but higher-quality",
        ),
        "navigation: fewer but better crystals",
        "conditional",
        _slow,
        "needs FIFO eviction from liquid",
    ),
    Claim(
        Place(
            "Modalities",
            "IX-B",
            1869,
            r"language instructions change slowly (high $\alpha$)",
            ((1726, r"$\alpha$  & 0.10 & 0.05 & 0.01"),),
        ),
        "slow change needs a high α",
        "underspecified",
        _modalities,
        "—",
    ),
)
