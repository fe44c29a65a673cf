"""Claims about Q-learning error, capacity and allocation."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy import spatial

from crystalrl.theory.claims.claim import DEFAULT, Claim
from crystalrl.theory.covering import covering, shrinkage, value_error_bound
from crystalrl.theory.law import Crystallization
from crystalrl.theory.paper import (
    paper_capacity,
    paper_necessary_capacity,
    paper_objective,
    paper_objective_displayed,
    paper_optimal_share,
    paper_q_error,
)
from crystalrl.theory.rates import Array, Rates

SHARE = paper_optimal_share(DEFAULT.rates)


def biased_fixed_point(exponent: float, correction: float) -> float:
    """The Q that prioritised replay converges to for γ = 0 and reward 10 with probability .1; the true value is 1.

    (10 − Q)/Q = 9^(1/(1 + ν(1 − κ))) for priority exponent ν and importance exponent κ.
    """
    odds = 9 ** (1 / (1 + exponent * (1 - correction)))
    return 10 / (1 + odds)


def _counter_example() -> str:
    points = [biased_fixed_point(nu, 0.4) for nu in (0.4, 0.6)]
    return (
        f"γ = 0: bound {paper_q_error(0.0, 1, 1, 0.0625, 6250):.0f}, actual bias {points[0] - 1:.2f} (ν = "
        f".4), {points[1] - 1:.2f} (ν = .6)"
    )


def _importance() -> str:
    return (
        f"exponent .4 converges to {biased_fixed_point(0.6, 0.4):.2f}, exponent 1 to "
        f"{biased_fixed_point(0.6, 1.0):.2f} (true value 1)"
    )


def _at_defaults() -> str:
    return (
        f"γ = .99, L = R = 1, N = 1e5: {paper_q_error(0.99, 1, 1, 0.0625, 6250):.1f} times the reward scale, "
        "and less without crystals"
    )


def _honest_bound() -> str:
    rng = np.random.default_rng(0)
    tree = spatial.cKDTree(rng.random((6250, 2)))
    radius = covering(rng.random((4000, 2)), lambda x: np.asarray(tree.query(x)[0])).radius
    return (
        f"measured r = {radius:.3f} for 6250 points in the unit square: bound "
        f"{value_error_bound(radius, 1, 0.99, 0):.1f} at γ = .99"
    )


def mean_distance(size: int, dimension: int, rng: np.random.Generator) -> float:
    """Mean distance from random probes to the nearest of `size` random points in the unit cube."""
    tree = spatial.cKDTree(rng.random((size, dimension)))

    def nearest(probes: Array) -> Array:
        return np.asarray(tree.query(probes)[0])

    return covering(rng.random((3000, dimension)), nearest).mean


def _covering() -> str:
    rng, sizes = np.random.default_rng(0), np.array([200, 1600, 12_800])
    slopes = []
    for dimension in (2, 3, 4, 8):
        radii = np.array([mean_distance(int(size), dimension, rng) for size in sizes])
        slopes.append(f"d = {dimension}: {shrinkage(radii, sizes):.2f}")
    return ", ".join(slopes) + f"; d = 43: 16× the crystals shrink r by {1 - 16 ** (-1 / 43):.0%}"


def _beta_direction() -> str:
    shares = [paper_optimal_share(Crystallization(beta=b).rates) for b in (0.005, 0.01, 0.05)]
    return "f_C* = " + " / ".join(f"{f:.4f}" for f in shares) + " for β = .005 / .01 / .05"


def _sufficient() -> str:
    log = np.log(1e5 / 0.05)
    needed = paper_capacity(0.99, 1, 1, SHARE, 0.05) * log
    return (
        f"γ = .99, L = R = 1: N ≥ {needed:.1e}, N_C ≥ {needed * SHARE:.1e}; γ = .9: N_C ≥ "
        f"{paper_capacity(0.9, 1, 1, SHARE, 0.05) * log * SHARE:.1e}"
    )


def one_slot_error(updates: int = 30_000) -> float:
    """Largest error of Q-learning that keeps only the last transition of each pair (s, a), on a random 5-state MDP."""
    rng = np.random.default_rng(0)
    chance, reward = rng.dirichlet(np.ones(5), (5, 2)), rng.random((5, 2))
    truth = np.zeros((5, 2))
    for _ in range(200):
        truth = reward + 0.5 * chance @ truth.max(axis=1)
    q, edges = np.zeros((5, 2)), chance.cumsum(axis=2)
    for n in range(1, updates + 1):
        step = (rng.random((5, 2, 1)) > edges).sum(axis=2).clip(max=4)
        q += (reward + 0.5 * q.max(axis=1)[step] - q) / (1 + 0.5 * n)
    return float(np.abs(q - truth).max())


def _necessary() -> str:
    required = paper_necessary_capacity(10, 0.02, 0.05)
    return f"'N ≥ {required:,.0f}' for ε = .02; Q-learning with one slot per pair: error {one_slot_error():.3f}"


def _allocation() -> str:
    values = [float(paper_objective(DEFAULT.rates, f, 1.0)) for f in (0.0, SHARE, 1.0)]
    return f"J(0) = {values[0]:.6f} < J(f*) = {values[1]:.6f} > J(1) = {values[2]:.6f}: f* = {SHARE:.4f} is the maximum"


def _displayed() -> str:
    f = np.linspace(0, 0.9, 200)
    j = paper_objective_displayed(DEFAULT.rates, f, 1.0)
    return (
        f"the displayed form is {'increasing' if np.all(np.diff(j) > 0) else 'not monotone'}: its minimum is at f = 0"
    )


def _within_eight() -> str:
    def gap(objective: Callable[[Rates, float, float], Array]) -> float:
        return float(objective(DEFAULT.rates, 0.0625, 1.0) / objective(DEFAULT.rates, SHARE, 1.0)) - 1

    return f"{gap(paper_objective):+.1%} (objective as defined), {gap(paper_objective_displayed):+.1%} (as displayed)"


def _two_exponents() -> str:
    return f"a tenfold TD error is drawn {10**0.6:.2f}× as often with ν = .6 (text), {10**0.4:.2f}× with .4 (Alg. 2)"


def _boost() -> str:
    low, high = 200 * (1 - 0.99), 1000 * (1 - 0.99)
    return f"unbounded: up to H(1−γ) = {low:.0f} to {high:.0f} for H = 200 to 1000, γ = .99; lost when U is recomputed"


def _targets() -> str:
    return (
        f"soft rate .005: after 1000 steps only {0.995**1000:.1%} of the old target is left for a hard copy to replace"
    )


def _alpha_star() -> str:
    return f"the bound is {paper_q_error(0.99, 1, 1, 0.0625, 6250):.2f} whatever α is: f_C and N_C are set by capacity"


def _schedules() -> str:
    cosine = np.sum((1 + np.cos(np.pi * np.arange(1000) / 1000)) / 2)
    halving = np.sum(0.5 ** (np.arange(100_000) // 100))
    return f"cosine decay over 1000 steps sums to {cosine:.0f}, halving every 100 steps to {halving:.0f}: both finite"


def _back_to_glass() -> str:
    law = Crystallization(utility=0.7 / 3, interference=1.0)
    return f"at c* = τ_C, falling from .70 to .65 takes {float(law.mean_first_passage(0.65, 0.7)):.0e} consolidations"


def _real_minimum() -> str:
    crystal, plastic = np.sqrt(DEFAULT.rates.loss), np.sqrt(DEFAULT.rates.gain)
    cube = crystal ** (2 / 3) / (crystal ** (2 / 3) + plastic ** (2 / 3))
    return f"Σw/√N gives f = {cube:.4f}, Neyman's Σw²/N gives {crystal / (crystal + plastic):.4f}: the weights decide"


CLAIMS = (
    Claim(
        "Thm qconv",
        "limsup E‖Q − Q*‖ ≤ 2γRL f_C/((1−γ)²√N_C)",
        "false",
        _counter_example,
        "(L·r + ε_w)/(1−γ): value_error_bound",
    ),
    Claim(
        "Thm qconv, importance",
        "importance weights do not move the limit",
        "false",
        _importance,
        "anneal the exponent to 1",
    ),
    Claim(
        "Thm qconv, use",
        "links (α, β, N_C) to the error",
        "false",
        _at_defaults,
        "it contains neither α nor β, and crystals only make it larger",
    ),
    Claim(
        "Thm qconv, replacement",
        "(ours) a bound from the measured radius",
        "true",
        _honest_bound,
        "covering(probes, nearest)",
    ),
    Claim("Assumption cover", "r_cov = O(N_C^(−½))", "conditional", _covering, "N^(−1/d): holds for d = 2"),
    Claim("Remark fC_bound", "a larger β reduces f_C*", "false", _beta_direction, "a larger β raises f_C*"),
    Claim(
        "eq. cap, 4800", "N_C ≳ 4800 at Meta-World scale", "false", _sufficient, "no capacity follows from this bound"
    ),
    Claim(
        "Thm capacity, necessary",
        "N = Ω(ε⁻² log) slots are necessary",
        "false",
        _necessary,
        "samples are necessary, storage is not",
    ),
    Claim(
        "Cor. optimal_alloc",
        "f_C* minimises the objective",
        "false",
        _allocation,
        "treat shares as hyperparameters; size phases by Little's law",
    ),
    Claim(
        "Cor. optimal_alloc, display", "J simplifies to w_C√f + w_P/√(1−f)", "false", _displayed, "w_C√f + w_P√(1−f)"
    ),
    Claim(
        "Cor. optimal_alloc, 8 %",
        "J(.0625) is within 8 % of J(f*)",
        "conditional",
        _within_eight,
        "numerically true, but meaningless",
    ),
    Claim(
        "Optimal split",
        "(ours) objectives with a minimum",
        "true",
        _real_minimum,
        "the weights are arbitrary in every case",
    ),
    Claim(
        "Exponent ν",
        "one sampling exponent",
        "underspecified",
        _two_exponents,
        "two exponents: priority and importance",
    ),
    Claim(
        "Alg. 3, boost", "episode returns raise utility", "underspecified", _boost, "a clipped, stored term inside U"
    ),
    Claim("Alg. 2 and 3, targets", "soft and hard target updates", "underspecified", _targets, "one rule"),
    Claim("Sensitivity, α*", "theory predicts α* ∝ √N_C", "false", _alpha_star, "no such result"),
    Claim(
        "Remark rm_verified, schedules",
        "cosine or step decay satisfies Robbins–Monro",
        "false",
        _schedules,
        "η₀/(1 + κt)",
    ),
    Claim(
        "Alg. 1, transfers",
        "crystals dissolve back into glass",
        "false",
        _back_to_glass,
        "the algorithm has no such move: add one below τ_C − .05",
    ),
)
