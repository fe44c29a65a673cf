"""The paper's formulas exactly as printed, for reproduction. Each docstring says when it holds or where it fails.

Only `crystalrl.theory.claims` uses them. Symbols are the paper's.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from crystalrl.theory.rates import Array, Rates


def paper_variance_bound(rates: Rates, t: ArrayLike) -> Array:
    """σ²c*(1−c*)(1−e^(−2λt))/(2λ), first inequality of Thm exp_conv (iii).

    Holds iff m(1−m) ≤ c*(1−c*) along the path (c0 ≥ c* ≥ ½ or c0 ≤ c* ≤ ½). False from c0 = 0 at the defaults: the
    true variance is 11.8 times larger at t = 43.
    """
    c = rates.target
    return np.asarray(rates.noise * c * (1 - c) * -np.expm1(-2 * rates.rate * np.asarray(t)) / (2 * rates.rate))


def paper_uniform_variance_bound(rates: Rates) -> float:
    """σ²/(8λ), second inequality of Thm exp_conv (iii). Holds for a known start or v(0) ≤ σ²/(8λ); not for v(0) = ¼."""
    return rates.noise / (8 * rates.rate)


def paper_primary_bound(rates: Rates, tau_L: ArrayLike) -> Array:
    """σ²/(8λ(c*−τ_L)²), eq. forget_poincare.

    Holds if c* > τ_L and (c0 ≥ c* or (c*−c0)/(c*−τ_L) ≤ .514). With U = 0 under interference it gives .0069 while the
    exact value tends to 1.
    """
    return np.asarray(paper_uniform_variance_bound(rates) / (rates.target - np.asarray(tau_L)) ** 2)


def paper_explicit_bound(rates: Rates, horizon: ArrayLike, tau_L: ArrayLike, c0: ArrayLike) -> Array:
    """exp(−2λ(c0−τ_L)²/(σ²T))·e^(−λT/2), eq. forget_bound. False: tends to 0, the exact value to I_τL(A,B) > 0.

    At U = .05, I = 1, c0 = .71, T = 5000 it gives 7e-9; the exact value is .0397.
    """
    t, gap = np.asarray(horizon, dtype=np.float64), np.asarray(c0) - np.asarray(tau_L)
    exponent = 2 * rates.rate * gap**2 / (rates.noise * t) + rates.rate * t / 2
    return np.asarray(np.exp(-np.minimum(exponent, 745.0)))


def paper_gibbs_weight(rates: Rates, c: ArrayLike) -> Array:
    """e^(−F(c)), printed as c^(A−1)(1−c)^(B−1) in Prop. grad_flow. It is c^A(1−c)^B, which is not stationary."""
    a, b = rates.shapes
    return np.asarray(np.exp(special.xlogy(a, c) + special.xlog1py(b, -np.asarray(c))))


def paper_optimal_share(rates: Rates) -> float:
    """f_C* = βĪ/(αŪ+βĪ), eq. fstar. It maximises the objective instead of minimising it."""
    return rates.loss / rates.rate


def paper_objective(rates: Rates, share: ArrayLike, capacity: float) -> Array:
    """J = w_C f/√(fN) + w_P (1−f)/√((1−f)N), eq. obj_full, with w_C = √(βĪ), w_P = √(αŪ). Concave in f."""
    f = np.asarray(share, dtype=np.float64)
    weights = np.sqrt(rates.loss) * np.sqrt(f) + np.sqrt(rates.gain) * np.sqrt(1 - f)
    return np.asarray(weights / np.sqrt(capacity))


def paper_objective_displayed(rates: Rates, share: ArrayLike, capacity: float) -> Array:
    """J as simplified below eq. obj_full, w_C√f + w_P/√(1−f): wrong (√(1−f) belongs in the numerator). Increasing."""
    f = np.asarray(share, dtype=np.float64)
    weights = np.sqrt(rates.loss) * np.sqrt(f) + np.sqrt(rates.gain) / np.sqrt(1 - f)
    return np.asarray(weights / np.sqrt(capacity))


def paper_q_error(discount: float, lipschitz: float, reward: float, share: float, crystals: float) -> float:
    """2γR L f_C/((1−γ)²√N_C), eq. qconv. False: 0 for γ = 0, where importance weights alone leave a bias of .45."""
    return 2 * discount * reward * lipschitz / (1 - discount) ** 2 * share / float(np.sqrt(crystals))


def paper_capacity(discount: float, lipschitz: float, reward: float, share: float, accuracy: float) -> float:
    """N ≥ 4γ²L²R²f/((1−γ)⁴ε²), eq. cap without its underived logarithm. At γ = .99, L = R = 1: 3e9 or more."""
    return (2 * discount * lipschitz * reward / (1 - discount) ** 2 / accuracy) ** 2 * share


def paper_necessary_capacity(pairs: float, accuracy: float, failure: float) -> float:
    """ε^(−2) ln(|S||A|/δ), the "necessary" capacity of Thm capacity. False: it counts samples, not storage."""
    return float(np.log(pairs / failure)) / accuracy**2


def paper_covering_radius(crystals: ArrayLike) -> Array:
    """N_C^(−½), Assumption cover without its constant. Holds in two dimensions; in d it is N_C^(−1/d)."""
    return np.asarray(np.asarray(crystals, dtype=np.float64) ** -0.5)


def paper_learning_rate(c: ArrayLike) -> Array:
    """(1−c)², eq. eta, relative to the base rate. At c* = .98 it is 3.9e-4: crystals hardly affect learning."""
    return np.asarray((1 - np.asarray(c, dtype=np.float64)) ** 2)


def paper_averaging_error() -> float:
    """ε ≈ 1/5000, Prop. averaging. U and I change once per consolidation, so ε is at least λ = .0255."""
    return 1 / 5000
