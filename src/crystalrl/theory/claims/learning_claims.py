"""Claims about the error of Q-learning."""

from __future__ import annotations

import numpy as np
from scipy import spatial

from crystalrl.theory.claims.claim import DEFAULT, THRESHOLDS, Claim, Place, contradicted
from crystalrl.theory.covering import covering, shrinkage, value_error_bound
from crystalrl.theory.law import Crystallization
from crystalrl.theory.paper import paper_learning_rate, paper_optimal_share, paper_q_error
from crystalrl.theory.rates import Array

SHARE = 0.0625
"""N_C/N of the paper."""


def biased_fixed_point(exponent: float, correction: float) -> float:
    """The Q that prioritised replay converges to for γ = 0 and reward 10 with probability .1; the true value is 1.

    (10 − Q)/Q = 9^(1/(1 + ν(1 − κ))) for priority exponent ν and importance exponent κ.
    """
    odds = 9 ** (1 / (1 + exponent * (1 - correction)))
    return 10 / (1 + odds)


def _counter_example() -> str:
    bound = paper_q_error(0.0, 1, 1, SHARE, 6250)
    bias = [biased_fixed_point(nu, 0.4) - 1 for nu in (0.4, 0.6)]
    return f"γ = 0: bound {bound:.0f}, actual bias {bias[0]:.2f} (ν = .4), {bias[1]:.2f} (ν = .6)"


def _importance() -> str:
    low, full = (biased_fixed_point(0.6, exponent) for exponent in (0.4, 1.0))
    return f"exponent .4 converges to {low:.2f}, exponent 1 to {full:.2f} (true value 1)"


def _at_defaults() -> str:
    rng = np.random.default_rng(0)
    tree = spatial.cKDTree(rng.random((6250, 2)))
    radius = covering(rng.random((4000, 2)), lambda x: np.asarray(tree.query(x)[0])).radius
    return (
        f"it has no α or β; γ = .99, L = R = 1, N = 1e5: {paper_q_error(0.99, 1, 1, SHARE, 6250):.1f}, and less with "
        f"fewer crystals; from a measured radius ({radius:.3f}, 6250 points in the unit square) "
        f"{value_error_bound(radius, 1, 0.99, 0):.1f}"
    )


def _share_bound() -> str:
    weak = contradicted(0.005).stationary().mean
    return f"f_C = N_C/N is a setting: {SHARE} > c* = {weak:.4f} at U = .005, I = 1; no theorem links the two"


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


def _inequality() -> str:
    weak = contradicted(0.02).stationary().mean
    left, right = float(paper_learning_rate(weak)), float(paper_learning_rate(THRESHOLDS[0]))
    return f"U = .02, I = 1: c* = {weak:.3f} < τ_L, (1−c*)² = {left:.3f} > {right:.2f}"


def _schedules() -> str:
    cosine = np.sum((1 + np.cos(np.pi * np.arange(1000) / 1000)) / 2)
    halving = np.sum(0.5 ** (np.arange(100_000) // 100))
    return f"cosine decay over 1000 steps sums to {cosine:.1f}, halving every 100 steps to {halving:.0f}: both finite"


def _alpha_star() -> str:
    return (
        f"the bound, {paper_q_error(0.99, 1, 1, SHARE, 6250):.2f} at γ = .99, has no α in it; f_C and N_C are settings"
    )


def _appendix_rate() -> str:
    ratio = SHARE / paper_optimal_share(DEFAULT.rates)
    smaller = SHARE / paper_optimal_share(Crystallization(beta=0.05).rates)
    return f"the theorem has f_C = N_C/N in its place: {ratio:.1f}× larger at the defaults, {smaller:.1f}× at β = .05"


CLAIMS = (
    Claim(
        Place("Thm qconv", "V-B", 1068, "the AMC Q-learning agent satisfies"),
        "limsup E‖Q − Q*‖ ≤ 2γRL f_C/((1−γ)²√N_C)",
        "false",
        _counter_example,
        "(L·r + ε_w)/(1−γ): value_error_bound",
    ),
    Claim(
        Place("Thm qconv, importance", "V-B", 1106, "the IS weights do not affect the asymptotic limit"),
        "importance weights do not move the limit",
        "false",
        _importance,
        "anneal the exponent to 1",
    ),
    Claim(
        Place("Thm qconv, use", "VIII-A", 1627, r"explicit formula linking $(\alpha,\beta,N_C)$ to the residual"),
        "links (α, β, N_C) to the error",
        "false",
        _at_defaults,
        "measure the radius: covering(probes, nearest)",
    ),
    Claim(
        Place("Thm qconv, share", "V-B", 1077, "$f_C$ is bounded above by"),
        "f_C ≤ E[c*] = αŪ/(αŪ+βĪ)",
        "false",
        _share_bound,
        "—",
    ),
    Claim(
        Place(
            "App. A, Thm qconv",
            "App. A",
            1961,
            r"Error $\le O(\beta\bar I/(\alpha\bar U{+}\beta\bar I)/\sqrt{N_C})$",
            ((1075, r"where $f_C=N_C/N$ is the crystal-buffer fraction"),),
        ),
        "error O(βĪ/(αŪ+βĪ)/√N_C)",
        "underspecified",
        _appendix_rate,
        "not what the theorem says",
    ),
    Claim(
        Place("Assumption cover", "V-A", 1056, r"$\mathbb{E}[r_{\mathrm{cov}}(N_C)]=O(N_C^{-1/2})$"),
        "r_cov = O(N_C^(−½))",
        "conditional",
        _covering,
        "N^(−1/d): holds for d = 2",
    ),
    Claim(
        Place("Remark rm_verified, inequality", "V-A", 1034, r"Since $0<(1-c_i^*)^2\le(1-\tau_L)^2\le1$"),
        "(1−c*)² ≤ (1−τ_L)² for plastic experiences",
        "conditional",
        _inequality,
        "needs c* ≥ τ_L",
    ),
    Claim(
        Place("Remark rm_verified, schedules", "V-A", 1045, r"decaying learning rate (e.g.\ cosine or step decay)"),
        "cosine or step decay serves as the Robbins–Monro sequence",
        "false",
        _schedules,
        "η₀/(1 + κt)",
    ),
    Claim(
        Place("Sensitivity, α*", "VI-F", 1511, r"theoretical optimum from Theorem~\ref{thm:qconv} predicts"),
        "theory predicts α* ∝ √N_C",
        "false",
        _alpha_star,
        "no such result",
    ),
)
