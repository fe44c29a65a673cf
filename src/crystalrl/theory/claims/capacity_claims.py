"""Claims about capacity and its allocation to the phases."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from crystalrl.theory.claims.claim import DEFAULT, Claim, Place
from crystalrl.theory.law import Crystallization
from crystalrl.theory.paper import (
    paper_capacity,
    paper_necessary_capacity,
    paper_objective,
    paper_objective_displayed,
    paper_optimal_share,
)
from crystalrl.theory.rates import Array, Rates

SHARE = paper_optimal_share(DEFAULT.rates)
USED = 0.0625
PAIRS, FAILURE = 1e5, 0.05


def _beta_direction() -> str:
    shares = [paper_optimal_share(Crystallization(beta=b).rates) for b in (0.005, 0.01, 0.05)]
    return "f_C* = " + " / ".join(f"{f:.4f}" for f in shares) + " for β = .005 / .01 / .05"


def _sufficient() -> str:
    log = np.log(PAIRS / FAILURE)
    needed = paper_capacity(0.99, 1, 1, SHARE, 0.05) * log
    return (
        f"γ = .99, L = R = 1: N ≥ {needed:.1e}, N_C ≥ {needed * SHARE:.1e}; γ = .9: N_C ≥ "
        f"{paper_capacity(0.9, 1, 1, SHARE, 0.05) * log * SHARE:.1e}"
    )


def _coverage() -> str:
    needed = [paper_capacity(0.99, 1, 1, f, 0.05) for f in (SHARE, USED)]
    more = needed[1] / needed[0]
    return f"eq. cap grows with f_C: N ≥ {needed[0]:.1e} at f_C* = {SHARE:.4f}, {more:.1f}× as much at {USED}"


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


def _matching() -> str:
    accuracy = 0.05
    lower = paper_necessary_capacity(PAIRS, accuracy, FAILURE)
    ratios = [paper_capacity(g, 1, 1, SHARE, accuracy) * np.log(PAIRS / FAILURE) / lower for g in (0.9, 0.99)]
    return f"upper / lower bound = {ratios[0]:.0f} at γ = .9, {ratios[1]:.1e} at γ = .99: they differ by (1−γ)^(−4)"


def _appendix_capacity() -> str:
    factor = (1 - 0.99) ** -4
    return f"the theorem's lower bound has no (1−γ)^(−4), {factor:.0e} at γ = .99, and assumes no 'uniform utility'"


def hoeffding_accuracy(crystals: int, pairs: int) -> float:
    """Accuracy that Hoeffding's inequality gives for `pairs` means of `crystals` values in [0, 1], P[fail] ≤ .05."""
    return float(np.sqrt(np.log(2 * pairs / FAILURE) / (2 * crystals)))


def _proofs() -> str:
    pooled, once = (hoeffding_accuracy(n, int(PAIRS)) for n in (6250, 1))
    return (
        "not the logarithm of eq. cap: Hoeffding averages values of one pair, and 6250 crystals for 1e5 pairs are less "
        f"than one each: ±{once:.1f} of the range, not ±{pooled:.3f}; nor the necessary condition"
    )


def _allocation() -> str:
    values = [float(paper_objective(DEFAULT.rates, f, 1.0)) for f in (0.0, SHARE, 1.0)]
    order = f"J(0) = {values[0]:.6f} < J(f*) = {values[1]:.6f} > J(1) = {values[2]:.6f}"
    return f"{order}: f* = {SHARE:.4f} is the maximum; {_real_minimum()}"


def _displayed() -> str:
    f = np.linspace(0, 0.9, 200)
    j = paper_objective_displayed(DEFAULT.rates, f, 1.0)
    return (
        f"the displayed form is {'increasing' if np.all(np.diff(j) > 0) else 'not monotone'}: its minimum is at f = 0"
    )


def _within_eight() -> str:
    def gap(objective: Callable[[Rates, float, float], Array]) -> float:
        return float(objective(DEFAULT.rates, USED, 1.0) / objective(DEFAULT.rates, SHARE, 1.0)) - 1

    return f"{gap(paper_objective):+.1%} (objective as defined), {gap(paper_objective_displayed):+.1%} (as displayed)"


def _real_minimum() -> str:
    crystal, plastic = np.sqrt(DEFAULT.rates.loss), np.sqrt(DEFAULT.rates.gain)
    cube = crystal ** (2 / 3) / (crystal ** (2 / 3) + plastic ** (2 / 3))
    return f"Σw/√N has a minimum at {cube:.4f}, Neyman's Σw²/N at {crystal / (crystal + plastic):.4f}"


CLAIMS = (
    Claim(
        Place("eq. cap, 4800", "App. B", 1992, r"requires $N_C\gtrsim4{,}800$"),
        "N_C ≳ 4800 at Meta-World scale",
        "false",
        _sufficient,
        "no capacity follows from this bound",
    ),
    Claim(
        Place(
            "eq. cap, coverage",
            "V-C",
            1250,
            "exceeds this minimum to additionally satisfy",
            (
                (1889, r"while satisfying the coverage constraint"),
                (1988, r"satisfies the error minimum with margin and additionally"),
            ),
        ),
        "6.25 % crystals, more than f_C*, to satisfy the coverage constraint",
        "false",
        _coverage,
        "the wrong direction",
    ),
    Claim(
        Place("Thm capacity, necessary", "V-C", 1179, "Any Q-learning algorithm using a finite buffer of size $N$"),
        "N = Ω(ε⁻² log) slots are necessary",
        "false",
        _necessary,
        "samples are necessary, storage is not",
    ),
    Claim(
        Place(
            "Abstract (iii)",
            "Abstract",
            74,
            "end-to-end Q-learning error bounds and matching memory-capacity lower bounds",
            (
                (145, r"matching lower bound on memory capacity"),
                (1887, r"A matching lower bound on memory capacity confirms"),
            ),
        ),
        "the bounds on capacity match",
        "false",
        _matching,
        "—",
    ),
    Claim(
        Place(
            "App. A, Thm capacity",
            "App. A",
            1962,
            r"Thm.~\ref{thm:capacity}: Capacity lower bound",
            (
                (1963, r"Uniform utility"),
                (1181, r"$N=\Omega(\epsilon^{-2}\log(|\mathcal{S}||\mathcal{A}|/\delta))$"),
            ),
        ),
        "lower bound with (1−γ)^(−4), for uniform utility",
        "underspecified",
        _appendix_capacity,
        "not what the theorem says",
    ),
    Claim(
        Place("App. A, proofs", "App. A", 1936, "All theorems are proved in full"),
        "all theorems are proved in full",
        "false",
        _proofs,
        "see also Thm forgetting, step 4",
    ),
    Claim(
        Place("Cor. optimal_alloc", "V-C", 1242, r"Setting $\partial J/\partial f_C=0$ and solving"),
        "f_C* minimises the objective",
        "false",
        _allocation,
        "treat shares as hyperparameters; size phases by Little's law",
    ),
    Claim(
        Place("Cor. optimal_alloc, display", "V-C", 1240, "Substituting $N_C$ and $N_P$"),
        "J simplifies to w_C√f + w_P/√(1−f)",
        "false",
        _displayed,
        "w_C√f + w_P√(1−f)",
    ),
    Claim(
        Place("Cor. optimal_alloc, 8 %", "V-C", 1252, r"objective $J(0.0625)$ remains within 8\% of its minimum value"),
        "J(.0625) is within 8 % of J(f*)",
        "conditional",
        _within_eight,
        "in size only: J(f*) is no minimum",
    ),
    Claim(
        Place("Remark fC_bound", "V-B", 1158, r"Increasing $\beta$ (faster decrystallization)"),
        "a larger β reduces f_C*",
        "false",
        _beta_direction,
        "a larger β raises f_C*",
    ),
)
