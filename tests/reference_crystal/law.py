"""One step of c: the stochastic differential equation by Euler's rule or by its exact moments."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext

import torch

from crystalrl.backends.splitmix import mix_int, signed
from crystalrl.params import CrystalParams
from crystalrl.random import Stream, beta_variates, lane_key, start_of
from tests.reference import GOLDEN, unit
from tests.reference_crystal.item import Item


def rates(item: Item, settled: float, p: CrystalParams) -> tuple[float, float]:
    """Gain and loss of c."""
    gain, loss = p.alpha * item.utility * settled, p.leak
    if p.melt is None:
        return gain, loss + p.beta * item.interference
    return gain * (1 - item.interference), loss + p.melt * item.interference


def stepped(item: Item, rate: tuple[float, float], dt: float, p: CrystalParams, at: tuple[int, int, int]) -> float:
    """c after dt; `at` is the lane's seed, the number of the consolidation and the slot."""
    c, (gain, loss), (seed, turn, slot) = item.c, rate, at
    if p.integrator == "euler":
        start = mix_int(lane_key(seed, Stream.NOISE) + (turn + 1) * GOLDEN)
        radius = math.sqrt(-2 * math.log1p(-unit(start, 2 * slot)))
        normal = radius * math.cos(2 * math.pi * unit(start, 2 * slot + 1))
        moved = c + dt * (gain * (1 - c) - loss * c) + p.sigma * math.sqrt(dt * c * (1 - c)) * normal
        return min(max(moved, 0.0), 1.0)
    mean, variance = moments(c, gain, loss, p.sigma, dt)
    if variance <= 0 or mean <= 0 or mean >= 1:
        return mean
    total = max(mean * (1 - mean) / variance - 1, 1e-12)
    shapes = torch.tensor([mean * total, (1 - mean) * total], dtype=torch.float64)
    begin = start_of(torch.tensor([signed(lane_key(seed, Stream.NOISE))]), torch.tensor([turn]))
    return float(beta_variates(shapes[:1], shapes[1:], begin, torch.tensor([slot])))


def moments(c: float, gain: float, loss: float, sigma: float, dt: float) -> tuple[float, float]:
    """Exact mean and variance of c after dt, by the closed formula (λ = 0 by its own), with digits to spare."""
    with localcontext() as context:
        context.prec = 60
        mean, variance = closed(*(Decimal(float(x)) for x in (c, gain, loss, sigma, dt)))
        return float(mean), float(variance)


def closed(c: Decimal, gain: Decimal, loss: Decimal, sigma: Decimal, dt: Decimal) -> tuple[Decimal, Decimal]:
    rate, noise = gain + loss, sigma**2
    if rate == 0:
        return c, c * (1 - c) * (1 - (-noise * dt).exp())
    target, k = gain / rate, 2 * rate + noise
    d = c - target
    mean = target + d * (-rate * dt).exp()
    variance = noise * target * (1 - target) * (1 - (-k * dt).exp()) / k
    variance += noise * (1 - 2 * target) * d * ((-rate * dt).exp() - (-k * dt).exp()) / (rate + noise)
    variance -= d**2 * (-2 * rate * dt).exp() * (1 - (-noise * dt).exp())
    return mean, variance if noise else Decimal(0)
