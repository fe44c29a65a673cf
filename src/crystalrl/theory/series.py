"""Spectral sums Σ coefficient_n e^(−λ_n t) p_n(c0) q_n(x) over two families of orthonormal Jacobi polynomials.

The decay is part of the recurrence of p_n, so nothing overflows where the sum is usable. Terms grow before they decay,
so small terms alone are no reason to stop. The terms alternate and cancel, so the rounding error is estimated from the
largest term.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from crystalrl.theory.rates import Array, Rates

MAX_TERMS = 6000
MAX_START_DEVIATIONS = 9.0
"""Largest distance of the mean at time t from the stationary mean, in standard deviations."""
MAX_POINT_DEVIATIONS = 40.0
"""Largest distance of x from the stationary mean, in standard deviations."""


@dataclass(frozen=True, slots=True)
class Expansion:
    """Which polynomials are summed: terms n ≥ `first`, with p from index `left_start` on and q from `right_start` on.

    `left`, `right`: the Beta shapes for which p and q are orthonormal. `scale` K gives coefficient √(K/λ_n); None: 1.
    """

    left: tuple[float, float]
    right: tuple[float, float]
    first: int
    left_start: int
    right_start: int
    scale: float | None


@dataclass(frozen=True, slots=True)
class SpectralSum:
    """`value` of the sum, `largest` absolute term (rounding is about eps times it), and where it `converged`."""

    value: Array
    largest: Array
    converged: Array


def spread(shapes: tuple[float, float]) -> tuple[float, float]:
    """Mean and standard deviation of Beta(shapes)."""
    p, q = shapes
    total = p + q
    return p / total, float(np.sqrt(p / total * (q / total) / (total + 1)))


def deviations(point: Array, shapes: tuple[float, float]) -> Array:
    """|point − mean| in standard deviations of Beta(shapes)."""
    centre, deviation = spread(shapes)
    return np.asarray(np.abs(point - centre) / deviation)


def recurrence(count: int, shapes: tuple[float, float]) -> tuple[Array, Array]:
    """Diagonal a_n and off-diagonal b_n of c·p_n = b_(n+1)p_(n+1) + a_n p_n + b_n p_(n−1), n < count; b_0 = 0."""
    beta, alpha = shapes[0] - 1, shapes[1] - 1
    n = np.arange(2, max(count, 3), dtype=np.float64)
    total = alpha + beta
    double = 2 * n + total
    diagonal = np.empty(n.size + 2)
    diagonal[0] = shapes[0] / (total + 2)
    first = (beta - alpha) * total / ((2 + total) * (4 + total))
    diagonal[1] = (1 + first) / 2
    diagonal[2:] = (1 + (beta - alpha) * total / (double * (double + 2))) / 2
    off = np.zeros(n.size + 2)
    off[1] = spread(shapes)[1]
    off[2:] = np.sqrt(n * (n + alpha) * (n + beta) * (n + total) / ((double + 1) * (double - 1))) / double
    return diagonal, off


def least_terms(z_start: Array, z_point: Array) -> Array:
    """An index safely past the largest term: both factors grow like Gaussians, and their product peaks before it."""
    return z_start**2 + z_start * z_point + 32


def spectral_sum(expansion: Expansion, rates: Rates, c0: Array, x: Array, t: Array, least: Array) -> SpectralSum:
    """The sum for flat arrays c0, x, t of one length; summation does not stop before index `least`."""
    offset = expansion.first - expansion.left_start
    left = recurrence(MAX_TERMS + 3, expansion.left)
    right = recurrence(MAX_TERMS + 3, expansion.right)
    p_before, p = np.zeros_like(c0), np.exp(-rates.eigenvalue(offset) * t)
    q_before, q = np.zeros_like(x), np.ones_like(x)
    fold_before = np.ones_like(t)
    for k in range(expansion.left_start):
        fold = np.exp(-(rates.rate + (k + offset) * rates.noise) * t)
        p_before, p, fold_before = p, fold * (c0 - left[0][k]) * p / left[1][k + 1], fold
    for k in range(expansion.right_start):
        q_before, q = q, (x - right[0][k]) * q / right[1][k + 1]
    value, largest, recent = np.zeros_like(c0), np.zeros_like(c0), np.zeros((16, c0.size))
    done = np.zeros(c0.shape, dtype=bool)
    for step in range(MAX_TERMS):
        n = expansion.first + step
        term = p * q
        if expansion.scale is not None:
            term = term * np.sqrt(expansion.scale / rates.eigenvalue(n))
        value += np.where(done, 0.0, term)
        recent[step % 16] = np.abs(term)
        largest = np.maximum(largest, recent[step % 16])
        if step % 16 == 15:
            quiet = recent.max(axis=0) <= 1e-17 * np.maximum(largest, 1e-300)
            done |= (step >= least) & (rates.eigenvalue(n) * t >= 30) & quiet
            if done.all():
                break
        i, j = expansion.left_start + step, expansion.right_start + step
        fold = np.exp(-(rates.rate + (i + offset) * rates.noise) * t)
        p, p_before = fold * ((c0 - left[0][i]) * p - left[1][i] * fold_before * p_before) / left[1][i + 1], p
        q, q_before = ((x - right[0][j]) * q - right[1][j] * q_before) / right[1][j + 1], q
        fold_before = fold
    return SpectralSum(value, largest, done)
