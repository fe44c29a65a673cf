"""Adam in one pass over the parameters, in Triton for CUDA."""

from __future__ import annotations

import math

import triton
import triton.language as tl
from torch import Tensor

from crystalrl.backends.triton_tree import on

BLOCK = 1024


@triton.jit
def _step(
    theta, gradient, first, second, rate, steps, when, size,
    BETA1: tl.constexpr, BETA2: tl.constexpr, LOG_BETA1: tl.constexpr, LOG_BETA2: tl.constexpr,
    EPS: tl.constexpr, WHEN: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """One step of rows [L, P] with a rate [L]; `steps` includes this step; WHEN: the scalar `when` is 0 or 1."""
    lane = tl.program_id(1).to(tl.int64)
    column = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    at, there = lane * size + column, column < size
    taken = tl.load(steps).to(tl.float64)
    first_bias = (1.0 - tl.exp(taken * LOG_BETA1)).to(tl.float32)
    second_bias = (1.0 - tl.exp(taken * LOG_BETA2)).to(tl.float32)
    speed, moves = tl.load(rate + lane), 1.0
    if WHEN:
        moves = tl.load(when).to(tl.float32)
        first_bias, second_bias = tl.maximum(first_bias, 1e-3), tl.maximum(second_bias, 1e-6)
    slope = tl.load(gradient + at, there, 0.0)
    mean, square = tl.load(first + at, there, 0.0), tl.load(second + at, there, 0.0)
    mean += (slope - mean) * ((1 - BETA1) * moves)
    square += (slope * slope - square) * ((1 - BETA2) * moves)
    spread = tl.sqrt_rn(square / second_bias) + EPS
    value = tl.load(theta + at, there, 0.0) - mean * (speed * moves / first_bias) / spread
    tl.store(first + at, mean, there)
    tl.store(second + at, square, there)
    tl.store(theta + at, value, there)


def step(
    theta: Tensor, gradient: Tensor, first: Tensor, second: Tensor, rate: Tensor, steps: Tensor, when: Tensor | None,
    betas: tuple[float, float], eps: float,
) -> None:  # fmt: skip
    """Update theta [L, P] and both moments in place; rate [L, 1]; `steps` includes this step."""
    lanes, size = theta.shape
    logarithms = [math.log(beta) for beta in betas]
    with on(theta):
        _step[(triton.cdiv(size, BLOCK), lanes)](
            theta, gradient.contiguous(), first, second, rate, steps, steps if when is None else when, size,
            *betas, *logarithms, eps, when is not None, BLOCK,
        )  # fmt: skip
