"""Claims about buffers, algorithms, cost and their settings."""

from __future__ import annotations

from fractions import Fraction
from math import ceil, floor

import numpy as np

from crystalrl.theory.claims.claim import DEFAULT, THRESHOLDS, Claim
from crystalrl.theory.law import Crystallization
from crystalrl.theory.paper import paper_learning_rate
from crystalrl.theory.sizing import Thresholds, selectivity

EPISODE = 200
TIMES = DEFAULT.time_to


def _full_after() -> str:
    climb = float(TIMES(0.7, 0.0)) * EPISODE
    times = " and ".join(f"{climb + n / 16:,.0f} steps (N = {n:.0e})" for n in (1e5, 1e6))
    return f"the crystal store is full after {times}"


def _everything_crystallises() -> str:
    times = [float(Crystallization(utility=u, interference=0.0).time_to(0.7, 0.0)) for u in (0.5, 0.1, 0.01)]
    return "I = 0: crystal after " + " / ".join(f"{t:.0f}" for t in times) + " consolidations for U = .5 / .1 / .01"


def _rates_by_phase() -> str:
    low, high = THRESHOLDS
    climb = -np.log1p(-np.array([low, high]))
    liquid = (1 - (1 - low) ** 2) / 2 / climb[0]
    glass = ((1 - low) ** 2 - (1 - high) ** 2) / 2 / (climb[1] - climb[0])
    return (
        f"time averages: liquid {liquid:.3f}, glass {glass:.3f}; .49 and .09 are the maxima in glass and crystal; "
        f"at c*: {float(paper_learning_rate(0.98039)):.1e}"
    )


def _crystal_gradient() -> str:
    share = np.array([0.70, 0.25, 0.05]) * np.array(
        [0.715, 0.235, float(paper_learning_rate(DEFAULT.stationary().mean))]
    )
    return f"the 5 % crystals in a batch contribute {share[2] / share.sum():.1e} of the update"


def _replay_frequency() -> str:
    per_item = np.array([0.70, 0.25, 0.05]) / (np.array([10, 5, 1]) / 16)
    return "draws per item at full capacity: " + " / ".join(f"{v:.2f}" for v in per_item)


def _batch_split() -> str:
    exact = sum(
        floor(Fraction(7, 10) * b) + floor(Fraction(1, 4) * b) + ceil(Fraction(1, 20) * b) != b for b in range(1, 1025)
    )
    return f"the parts do not sum to B for {exact} of the sizes 1 … 1024; they do for 256"


def _counter_reset() -> str:
    p, n = 0.1, 20
    return f"mean time to eviction at Ī = .1: {(p**-n - 1) / (1 - p):.1e} if reset, {n / p:.0f} if never reset"


def _raw_utility() -> str:
    return (
        "with unscaled |δ| and α = .05: glass in one step for U > "
        + f"{0.3 / 0.05:.0f}, crystal for U > {0.7 / 0.05:.0f}, overshoot for U > {1 / 0.05:.0f}"
    )


def _novelty() -> str:
    time = float(Crystallization(utility=0.3, interference=0.0).time_to(0.7, 0.0))
    return (
        f"n(s, a) = 1 for every continuous pair: N = e^(−1/50) = {np.exp(-1 / 50):.2f}, so U ≥ .3 and everything "
        f"crystallizes within {time:.0f} consolidations"
    )


def _exists() -> str:
    return f"with 500 neighbours and a chance of 1 % per neighbour, P[I = 1] = {1 - 0.99**500:.3f}"


def _negative_utility() -> str:
    return (
        f"U = −1 gives drift {0.05 * -1:.2f} at c = 0: c leaves [0, 1] and the equation is ill-posed; the "
        "library rejects U < 0"
    )


def _forward_passes() -> str:
    small, large = 2 * 1e5 / EPISODE, 2 * 1e6 / EPISODE
    return (
        f"forward passes per step: {small:.0f} (N = 1e5) or {large:.0f} (N = 1e6), against 3072 for an update of 256: "
        f"{small / 3072:.0%} – {large / 3072:.0%}"
    )


def _rebuild() -> str:
    return (
        f"the paper's own table: rebuild .5 s of {0.5 + 8.2:.1f} s; amortised at N = 1e5: {0.85 / EPISODE * 1e3:.2f} "
        "ms per step"
    )


def _memory() -> str:
    tuple_bytes = 4 * (39 + 4 + 1 + 39 + 1)
    return (
        f"a Meta-World tuple takes {tuple_bytes} B: 1e6 of them {tuple_bytes * 1e6 / 1e6:.0f} MB; N is 1e6 in "
        "one place, 1e5 in another"
    )


def _overhead() -> str:
    return f"5 B × 1e6 = 5 MB; the index copy adds {1e6 * 39 * 4 / 1e6:.0f} MB, and U, δ, age are not counted"


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
    inflow = Crystallization().contents(EPISODE, Thresholds(), 0.0).number
    return f"by Little's law liquid holds {inflow[0]:.0f} at U = .5, not 62 500; 6.3 % exceeds the hard cap of 6.25 %"


def _turnover() -> str:
    return (
        f"at .3 % per task, {0.997**45:.1%} of the store is from tasks ≤ 5 after task 50; {6250 * 0.003:.0f} "
        "new crystals per task (N = 1e5)"
    )


def _selectivity() -> str:
    values = selectivity(0.05, 0.3, EPISODE, 0.625 * np.array([1e4, 1e5, 1e6]))
    return (
        "utility below which a FIFO liquid store evicts before glass: "
        + " / ".join(f"{v:.4f}" for v in values)
        + " (N = 1e4/1e5/1e6)"
    )


def _timescales() -> str:
    t = TIMES([0.3, 0.7, 0.95], 0.0)
    return (
        f"L→G {t[0] * EPISODE:,.0f}, G→C after {t[1] * EPISODE:,.0f}, .95 after {t[2] * EPISODE:,.0f} steps: "
        f"ratio 1 : {(t[1] - t[0]) / t[0]:.2f}, never 1 : 10"
    )


def _early() -> str:
    half, full = (float(Crystallization(utility=u).time_to(0.8, 0.0)) * EPISODE for u in (0.5, 1.0))
    return f"c > .8 after {half:,.0f} steps at U = .5, {full:,.0f} at U = 1"


def _presets() -> str:
    moderate, slow = 0.05 / EPISODE, 0.01 * 5 / 5000
    return f"α·Δt per step: {moderate:.1e} against {slow:.1e}, {moderate / slow:.0f}× slower, not 5×"


CLAIMS = (
    Claim(
        "Alg. 1, capacities",
        "three bounded buffers",
        "underspecified",
        _full_after,
        "a capacity and an eviction rule for every phase",
    ),
    Claim(
        "Utility and crystals",
        "only useful experiences crystallize",
        "false",
        _everything_crystallises,
        "with I = 0 utility sets only the speed: select by admission, or add a leak",
    ),
    Claim(
        "Table phases, rates",
        "effective rates ~.5 (glass), ~.09 (crystal)",
        "false",
        _rates_by_phase,
        "these are maxima, not typical values",
    ),
    Claim(
        "eq. eta",
        "crystals still contribute to learning at a low rate",
        "false",
        _crystal_gradient,
        "a minimum weight, or anchors",
    ),
    Claim(
        "Table phases, replay",
        "replay frequency high / medium / low",
        "false",
        _replay_frequency,
        "glass and crystal are drawn equally often per item",
    ),
    Claim("Alg. 2, split", "⌊.7B⌋ + ⌊.25B⌋ + ⌈.05B⌉ = B", "conditional", _batch_split, "largest-remainder rounding"),
    Claim(
        "Alg. 1, counter",
        "consecutive interference leads to eviction",
        "underspecified",
        _counter_reset,
        "a saturating counter, reset at I = 0",
    ),
    Claim(
        "Utility in [0, 1]",
        "δ enters unscaled; single spikes do not crystallize",
        "false",
        _raw_utility,
        "scale |δ| into [0, 1]",
    ),
    Claim(
        "eq. nov", "counts measure novelty", "underspecified", _novelty, "count visits to grid cells, or use distances"
    ),
    Claim(
        "eq. interf",
        "one contradicting neighbour flags interference",
        "underspecified",
        _exists,
        "a majority of newer neighbours",
    ),
    Claim("Safe RL", "negative utility forces crystallization", "false", _negative_utility, "U in [0, 1]"),
    Claim(
        "Complexity",
        "15 % wall-clock overhead",
        "unverifiable",
        _forward_passes,
        "consolidate a rotating slice with its own Δt",
    ),
    Claim("kNN table", "at 1e6 the rebuild dominates with 8.7 s", "false", _rebuild, "the queries dominate"),
    Claim("Memory size", "380 MB against 1000 MB", "underspecified", _memory, "state N and bytes per tuple"),
    Claim("Memory overhead", "about 5 MB for 1e6 experiences", "conditional", _overhead, "count every column"),
    Claim(
        "Monitoring, means",
        "liquid mean .25–.35 is healthy",
        "false",
        _monitoring,
        "impossible in steady state with τ_L = .3",
    ),
    Claim("Monitoring, flatness", "std < .05 means that σ is too large", "false", _flat, "std grows with σ"),
    Claim("Utilisation", "6.3 / 31.1 / 62.6 % of capacity", "unverifiable", _utilisation, "law.contents"),
    Claim(
        "Turnover",
        ".3 % of crystals leave per task",
        "unverifiable",
        _turnover,
        "implies a store that is frozen after task 5",
    ),
    Claim(
        "Eviction by utility",
        "low-utility experiences are evicted before they crystallize",
        "conditional",
        _selectivity,
        "selectivity(...) for a FIFO liquid store",
    ),
    Claim(
        "Table bio",
        "1k / 10k / 50k steps, proportional to biology",
        "false",
        _timescales,
        "law.time_to × steps per consolidation",
    ),
    Claim("Meta-World text", "c > .8 within about 10k steps", "conditional", _early, "only at U near 1"),
    Claim("Table impl", "navigation consolidates 5× slower", "false", _presets, "compare α·Δt per environment step"),
)
