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
    FIRST: tl.constexpr, SECOND: tl.constexpr, LOG_FIRST: tl.constexpr, LOG_SECOND: tl.constexpr,
    STABLE: tl.constexpr, WHEN: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """One step of rows [L, P] with a rate [L]; `steps` includes this step; WHEN: the scalar `when` is 0 or 1."""
    lane = tl.program_id(1).to(tl.int64)
    column = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    at, there = lane * size + column, column < size
    taken = tl.load(steps).to(tl.float64)
    first_bias = (1.0 - tl.exp(taken * LOG_FIRST)).to(tl.float32)
    second_bias = (1.0 - tl.exp(taken * LOG_SECOND)).to(tl.float32)
    speed, moves = tl.load(rate + lane), 1.0
    if WHEN:
        moves = tl.load(when).to(tl.float32)
        first_bias, second_bias = tl.maximum(first_bias, 1e-3), tl.maximum(second_bias, 1e-6)
    slope = tl.load(gradient + at, there, 0.0)
    mean, square = tl.load(first + at, there, 0.0), tl.load(second + at, there, 0.0)
    mean += (slope - mean) * ((1 - FIRST) * moves)
    square += (slope * slope - square) * ((1 - SECOND) * moves)
    spread = tl.sqrt_rn(square / second_bias) + STABLE
    value = tl.load(theta + at, there, 0.0) - mean * (speed * moves / first_bias) / spread
    tl.store(first + at, mean, there)
    tl.store(second + at, square, there)
    tl.store(theta + at, value, there)


def step(
    theta: Tensor, gradient: Tensor, first: Tensor, second: Tensor, rate: Tensor, steps: Tensor, when: Tensor | None,
    decays: tuple[float, float], stable: float,
) -> None:  # fmt: skip
    """Update theta [L, P] and both moments in place; rate [L, 1]; `steps` includes this step."""
    lanes, size = theta.shape
    logarithms = [math.log(decay) for decay in decays]
    with on(theta):
        _step[(triton.cdiv(size, BLOCK), lanes)](
            theta, gradient.contiguous(), first, second, rate, steps, steps if when is None else when, size,
            *decays, *logarithms, stable, when is not None, BLOCK,
        )  # fmt: skip
