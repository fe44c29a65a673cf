"""Potentials of the law, and its relaxation (Prop. grad_flow and the convergence part of Thm stationary)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from crystalrl.theory.rates import Array, Rates, unit
from crystalrl.theory.stationary import stationary


@dataclass(frozen=True, slots=True)
class Potential:
    """Three potentials at c that the paper treats as one.

    `langevin` F = −A ln c − B ln(1−c): drift = −D_L F′ with D_L = σ²c(1−c)/2.
    `gibbs` Φ = −(A−1) ln c − (B−1) ln(1−c): the stationary density is e^(−Φ) up to a constant (not e^(−F)).
    `quasi` V = σ²[F(c) − F(c*)]: the Freidlin–Wentzell cost of reaching c; finite also without noise.
    """

    langevin: Array
    gibbs: Array
    quasi: Array


@dataclass(frozen=True, slots=True)
class Relaxation:
    """How the start is forgotten. `rate` λ is the spectral gap; `amplitude` |c0 − c*|/sd is the leading coefficient.

    `mixing_time` = ln(amplitude)/λ: before it the distribution is far from stationary (cut-off), however large λ is.
    """

    rate: float
    amplitude: Array
    mixing_time: Array


def potential(rates: Rates, c: ArrayLike) -> Potential:
    """The potentials at c in [0, 1]; ∞ where they diverge. Without noise only `quasi` is finite."""
    c = unit("c", c)
    quasi = 2 * (_log_cost(rates.gain, c, rates) + _log_cost(rates.loss, 1 - c, rates.mirrored))
    if rates.noise == 0:
        undefined = np.full(c.shape, np.inf)
        return Potential(undefined, undefined, quasi)
    a, b = rates.shapes
    langevin = -special.xlogy(a, c) - special.xlogy(b, 1 - c)
    gibbs = -special.xlogy(a - 1, c) - special.xlogy(b - 1, 1 - c)
    return Potential(np.asarray(langevin), np.asarray(gibbs), np.asarray(quasi))


def _log_cost(rate: float, c: Array, rates: Rates) -> Array:
    """−rate·ln(c/c*), 0 where the rate is zero."""
    if rate == 0:
        return np.zeros(c.shape)
    return np.asarray(-special.xlogy(rate, c) + rate * np.log(rates.target))


def relaxation(rates: Rates, c0: ArrayLike) -> Relaxation:
    """Relaxation from c0; needs gain + loss > 0. The amplitude is infinite if the limit is an atom."""
    start = unit("c0", c0)
    law = stationary(rates)
    distance = np.abs(start - law.mean)
    certain = np.where(distance > 0, np.inf, 0.0)
    amplitude = distance / np.sqrt(law.variance) if law.variance > 0 else certain
    time = np.log(np.maximum(amplitude, 1.0)) / rates.rate
    return Relaxation(rates.rate, np.asarray(amplitude), np.asarray(time))
