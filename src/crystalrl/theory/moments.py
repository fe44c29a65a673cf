"""Mean and variance of `crystalrl.dynamics` in float64; third and fourth central moments, used for error estimates."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from crystalrl import dynamics
from crystalrl.theory.rates import Array, Rates


def tensor(value: ArrayLike) -> Tensor:
    """A float64 tensor with its own memory (torch rejects read-only broadcast views)."""
    return torch.from_numpy(np.array(value, dtype=np.float64))


def mean(rates: Rates, t: ArrayLike, c0: ArrayLike) -> Array:
    """m(t) = c* + (c0 − c*)e^(−λt); c0 where both rates vanish. Broadcasts t with c0."""
    value: Array = dynamics.mean(tensor(c0), tensor(rates.gain), tensor(rates.loss), tensor(t)).numpy()
    return value


def variance(rates: Rates, t: ArrayLike, c0: ArrayLike, v0: ArrayLike = 0.0) -> Array:
    """v(t) from v(0) = v0 (exact solution of the variance equation of Thm exp_conv). Broadcasts t, c0 and v0."""
    gain, loss, sigma = tensor(rates.gain), tensor(rates.loss), tensor(rates.sigma)
    value: Array = dynamics.variance(tensor(c0), gain, loss, sigma, tensor(t), tensor(v0)).numpy()
    return value


def third_central_moment(rates: Rates, t: ArrayLike, c0: ArrayLike) -> Array:
    """μ₃(t), from dμ₃/dt = −3(λ + σ²)μ₃ + 3σ²(1 − 2m)v.

    The moment equations close because drift and squared noise are polynomials of degree 1 and 2.
    """

    def source(time: Array, start: Array) -> Array:
        return (1 - 2 * mean(rates, time, start)) * variance(rates, time, start)

    return 3 * rates.noise * _driven(3 * (rates.rate + rates.noise), source, t, c0)


def fourth_central_moment(rates: Rates, t: ArrayLike, c0: ArrayLike) -> Array:
    """μ₄(t), from dμ₄/dt = −(4λ + 6σ²)μ₄ + 6σ²[m(1 − m)v + (1 − 2m)μ₃]."""

    def source(time: Array, start: Array) -> Array:
        centre = mean(rates, time, start)
        spread = centre * (1 - centre) * variance(rates, time, start)
        return spread + (1 - 2 * centre) * third_central_moment(rates, time, start)

    return 6 * rates.noise * _driven(4 * rates.rate + 6 * rates.noise, source, t, c0)


def _driven(decay: float, source: Callable[[Array, Array], Array], t: ArrayLike, c0: ArrayLike) -> Array:
    """∫₀ᵗ e^(−decay·u) source(t − u, c0) du. Nodes are graded cubically over the last 45 decay times."""
    t, c0 = np.broadcast_arrays(np.asarray(t, dtype=np.float64), np.asarray(c0, dtype=np.float64))
    node, weight = np.polynomial.legendre.leggauss(40)
    share = (node + 1) / 2
    reach = np.minimum(t, 45.0 / decay) if decay > 0 else t
    past = reach[..., None] * share**3
    inner = np.exp(-decay * past) * source(t[..., None] - past, c0[..., None])
    return np.asarray(reach * np.sum(inner * 1.5 * share**2 * weight, axis=-1))
