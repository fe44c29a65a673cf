"""Claims about phases, sampling, learning rates and the three algorithms."""

from __future__ import annotations

from fractions import Fraction
from math import ceil, floor

import numpy as np

from crystalrl.theory.claims.claim import DEFAULT, THRESHOLDS, Claim, Place
from crystalrl.theory.paper import paper_learning_rate
from crystalrl.theory.rates import Array
from crystalrl.theory.sizing import selectivity

EPISODE = 200
BATCH = np.array([0.70, 0.25, 0.05])
"""Shares of a batch, liquid, glass and crystal (Algorithm 2)."""
SLOTS = np.array([10, 5, 1]) / 16
"""Shares of the capacity."""


def _full_after() -> str:
    climb = float(DEFAULT.time_to(0.7, 0.0)) * EPISODE
    times = " and ".join(f"{climb + n / 16:,.0f} steps (N = {n:.0e})" for n in (1e5, 1e6))
    return f"only liquid has a rule for overflow; the crystal store is full after {times}"


def mean_learning_rates() -> tuple[float, float]:
    """(1 − c)² averaged over the time in liquid and in glass, on a path from c = 0 at constant U and I = 0."""
    low, high = THRESHOLDS
    climb = -np.log1p(-np.array([low, high]))
    liquid = (1 - (1 - low) ** 2) / 2 / climb[0]
    glass = ((1 - low) ** 2 - (1 - high) ** 2) / 2 / (climb[1] - climb[0])
    return float(liquid), float(glass)


def _rates_by_phase() -> str:
    liquid, glass = mean_learning_rates()
    low, high = (float(paper_learning_rate(tau)) for tau in THRESHOLDS)
    return (
        f"time averages: liquid {liquid:.3f}, glass {glass:.3f}; the maxima in glass and crystal are {low:.2f} and "
        f"{high:.2f}; at c*: {float(paper_learning_rate(DEFAULT.stationary().mean)):.1e}"
    )


def crystal_share(c: float) -> float:
    """Share of the update that crystals with state c contribute, if all TD errors are of one size."""
    rates: Array = np.array([*mean_learning_rates(), float(paper_learning_rate(c))])
    return float(BATCH[2] * rates[2] / np.sum(BATCH * rates))


def _crystal_gradient() -> str:
    new, old = crystal_share(THRESHOLDS[1]), crystal_share(DEFAULT.stationary().mean)
    return f"crystals, 5 % of a batch, contribute {old:.1e} of the update at c*, and at most {new:.1%} (c = τ_C)"


def _replay_frequency() -> str:
    per_item = BATCH / SLOTS
    return "share of a batch 70 / 25 / 5 %; draws per item at full capacity " + " / ".join(f"{v:.2f}" for v in per_item)


def _batch_split() -> str:
    exact = sum(
        floor(Fraction(7, 10) * b) + floor(Fraction(1, 4) * b) + ceil(Fraction(1, 20) * b) != b for b in range(1, 1025)
    )
    return f"the parts do not sum to B for {exact} of the sizes 1 … 1024; they do for 256"


def _counter_reset() -> str:
    p, n = 0.1, 20
    return f"mean time to eviction at Ī = .1: {(p**-n - 1) / (1 - p):.1e} if reset, {n / p:.0f} if never reset"


def _two_exponents() -> str:
    text, algorithm = 10**0.6, 10**0.4
    return (
        f"a tenfold TD error is drawn {text:.2f}× as often from liquid with ν = .6 (text), {algorithm:.2f}× with .4 "
        f"(Alg. 2); from glass {10**1.0:.0f}× by |δ|√c (text), {algorithm:.2f}× by |δ|^ν√c (Alg. 2)"
    )


def _targets() -> str:
    kept = 0.995**1000
    return f"soft rate .005: after 1000 steps only {kept:.1%} of the old target is left for a hard copy to replace"


def lowest_kept(room: Array, alpha: float = DEFAULT.alpha) -> Array:
    """Utility below which a liquid store of this many slots evicts before glass, if the lowest utility goes first.

    For utilities spread evenly over [0, 1] and one arrival per step: ∫ from the result to 1 of the time to glass,
    k/U with k = −ln(1−τ_L)·episode/α, equals the room.
    """
    k = -np.log1p(-THRESHOLDS[0]) * EPISODE / alpha
    return np.asarray(np.exp(-room / k))


def _eviction() -> str:
    room = SLOTS[0] * np.array([1e4, 1e5])
    queue, lowest = selectivity(DEFAULT.alpha, THRESHOLDS[0], EPISODE, room), lowest_kept(room)
    return (
        f"N = 1e4: FIFO evicts U < {queue[0]:.3f} before glass, lowest-U only U < {lowest[0]:.3f}; N = 1e5: "
        f"{queue[1]:.3f} and {lowest[1]:.0e}"
    )


def _fisher() -> str:
    rng = np.random.default_rng(0)
    fisher, optimum, theta = rng.random((50, 1000)), rng.standard_normal((50, 1000)), rng.standard_normal(1000)
    separate = (fisher * (theta - optimum)).sum(axis=0)
    running = fisher.sum(axis=0) * theta - (fisher * optimum).sum(axis=0)
    same = bool(np.abs(separate - running).max() < 1e-12)
    return f"gradient of 50 penalties = gradient from two running sums of size |θ|, to 1e-12: {same}"


CLAIMS = (
    Claim(
        Place(
            "Alg. 1, capacities", "II", 195, "AMC uses fixed-size buffers", ((905, r"\While{$|\mathcal{B}_L|>N_L$}"),)
        ),
        "three buffers of fixed size",
        "underspecified",
        _full_after,
        "a capacity and an eviction rule for every phase",
    ),
    Claim(
        Place("Table phases, rates", "IV-B", 862, r"Eff.\ learning rate"),
        "effective rates ~.5 (glass), ~.09 (crystal)",
        "false",
        _rates_by_phase,
        "these are maxima, not typical values",
    ),
    Claim(
        Place(
            "Protected data",
            "VIII-A",
            1608,
            "which buffered experiences are sufficiently stable to constrain future learning",
        ),
        "crystals constrain future learning",
        "false",
        _crystal_gradient,
        "a minimum weight, or anchors",
    ),
    Claim(
        Place("Table phases, replay", "IV-B", 863, "Replay frequency & High & Medium & Low"),
        "replay frequency high / medium / low",
        "conditional",
        _replay_frequency,
        "true of the share of a batch; per item, glass = crystal",
    ),
    Claim(
        Place("Alg. 2, split", "IV-D", 922, r"sample $\lfloor 0.70B\rfloor$ from"),
        "⌊.7B⌋ + ⌊.25B⌋ + ⌈.05B⌉ = B",
        "conditional",
        _batch_split,
        "largest-remainder rounding",
    ),
    Claim(
        Place(
            "Alg. 1, counter", "IV-A", 829, "consecutive consolidation steps.", ((902, r"Increment $\mathrm{cnt}_i$"),)
        ),
        "consecutive interference leads to eviction; Algorithm 1 never resets the counter",
        "underspecified",
        _counter_reset,
        "a saturating counter, reset at I = 0",
    ),
    Claim(
        Place(
            "Sampling weights",
            "IV-A",
            817,
            r"($\nu=0.6$, same exponent as PER",
            (
                (824, r"Sampling weight $P(e_i)\propto|\delta_i|\sqrt{c_i}$"),
                (920, r"IS exponent $\nu=0.4$"),
                (925, r"w.p.\ $\propto|\delta_i|^\nu\sqrt{c_i}$"),
            ),
        ),
        "one exponent ν, one weight per phase",
        "underspecified",
        _two_exponents,
        "two exponents, priority and importance",
    ),
    Claim(
        Place(
            "Alg. 2 and 3, targets",
            "IV-E",
            976,
            r"Hard-update: $\phi^-\leftarrow\phi$",
            ((944, r"Soft-update target network:"),),
        ),
        "soft (Alg. 2) and hard (Alg. 3) target updates",
        "underspecified",
        _targets,
        "one rule",
    ),
    Claim(
        Place(
            "Liquid eviction",
            "VIII-B",
            1640,
            "rapid encoding, FIFO eviction, full learning-rate plasticity",
            (
                (818, r"Eviction: lowest-$U_i$ experience"),
                (864, r"Retention policy & Utility-FIFO"),
            ),
        ),
        "FIFO here, lowest U in Alg. 1, 'Utility-FIFO' in Table phases",
        "underspecified",
        _eviction,
        "lowest utility first",
    ),
    Claim(
        Place(
            "EWC, memory",
            "VIII-A",
            1613,
            "EWC must maintain $K$ Fisher matrices",
            ((162, r"the constraint matrix grows with task count"),),
        ),
        "EWC must keep K Fisher matrices",
        "false",
        _fisher,
        "the penalties add up to one quadratic form (online EWC)",
    ),
)
