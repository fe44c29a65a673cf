"""Mean and variance from `crystalrl.dynamics` in float64, and the third central moment that grades approximations."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from crystalrl import dynamics
from crystalrl.theory.rates import Array, Rates


def tensor(value: ArrayLike) -> Tensor:
    """A float64 tensor that owns its memory (broadcast views are read-only, which torch refuses)."""
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
    """μ₃(t) = 3σ² ∫₀ᵗ e^(−3(λ+σ²)(t−s)) (1 − 2m(s)) v(s) ds by quadrature in decaying time.

    The moment equations close because drift and squared noise are polynomials of degree 1 and 2.
    """
    t, c0 = np.broadcast_arrays(np.asarray(t, dtype=np.float64), np.asarray(c0, dtype=np.float64))
    decay = 3 * (rates.rate + rates.noise)
    node, weight = np.polynomial.legendre.leggauss(48)
    # Past times t − s are spaced by a cubic map over the last 45 decay times: dense where the kernel is largest.
    reach = np.minimum(t, 45.0 / decay) if decay > 0 else t
    share = (node + 1) / 2
    past = reach[..., None] * share**3
    kernel = np.exp(-decay * past) * (1 - 2 * mean(rates, t[..., None] - past, c0[..., None]))
    inner = kernel * variance(rates, t[..., None] - past, c0[..., None])
    return np.asarray(3 * rates.noise * reach * np.sum(inner * 1.5 * share**2 * weight, axis=-1))
