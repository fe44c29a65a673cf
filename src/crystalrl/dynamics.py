"""The crystallization law as pure functions: the readable specification of how c moves.

Every function takes two rates instead of the paper's products, because all variants of the law have this form:

    dc = [gain·(1 − c) − loss·c] dt + σ·√(c(1 − c)) dW

with gain = α·U and loss = β·I in the paper (eq. sde). `loss` also includes the optional leak and, in the anchored
configuration, the melting rate μ·W; `gain` then includes the settling factor S and (1 − W). Rates are per unit of time,
and `dt` is in the same unit. Arguments are tensors that broadcast; results keep their dtype.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

EMPTY, LIQUID, GLASS, CRYSTAL = 0, 1, 2, 3
PHASES = ("empty", "liquid", "glass", "crystal")


def drift(c: Tensor, gain: Tensor, loss: Tensor) -> Tensor:
    """Expected change of c per unit of time, eq. sde."""
    return gain * (1 - c) - loss * c


def fixed_point(c: Tensor, gain: Tensor, loss: Tensor) -> Tensor:
    """c* = gain / (gain + loss), the limit of the mean; c itself where both rates are zero (nothing moves)."""
    rate = gain + loss
    return torch.where(rate > 0, gain / torch.where(rate > 0, rate, torch.ones_like(rate)), c)


def mean(c: Tensor, gain: Tensor, loss: Tensor, dt: Tensor) -> Tensor:
    """E[c(t + dt)] given c(t) = c, exact: c* + (c − c*)·e^(−λ·dt), as a sum of positive terms: small means are exact
    too."""
    rate = gain + loss
    return c * torch.exp(-rate * dt) + gain * _decayed_time(rate, dt)


def variance(c: Tensor, gain: Tensor, loss: Tensor, sigma: Tensor, dt: Tensor, start: Tensor | float = 0.0) -> Tensor:
    """Var[c(t + dt)] given mean c and variance `start` at t, exact for constant rates.

    The closed-form solution of dv/dt = −(2λ + σ²)·v + σ²·m(1 − m). The paper's first bound on it is false. With
    x = 1 − e^(−λ·s), m(1 − m) = c(1 − c)·(1 − x)² + [c(1 − c*) + c*(1 − c)]·x(1 − x) + c*(1 − c*)·x²: terms that are
    not negative are integrated one by one, so that little cancels where c hardly moves.
    """
    rate, noise = gain + loss, sigma**2
    target, rest = fixed_point(c, gain, loss), fixed_point(1 - c, loss, gain)  # c* and 1 − c*
    kept, moved = torch.exp(-rate * dt), _decayed_time(rate, dt)
    still = kept * _decayed_time(noise, dt)
    mixed = kept * _share(rate, noise) * (moved - still)
    beyond = _share(rate, rate + noise) * (moved - kept * _decayed_time(rate + noise, dt)) - mixed
    whole = c * (1 - c) * kept * still + (c * rest + target * (1 - c)) * mixed + target * rest * beyond
    return (start * torch.exp(-(2 * rate + noise) * dt) + noise * whole).clamp_min(0)  # only rounding: below 0


def _share(rate: Tensor, other: Tensor) -> Tensor:
    """rate / (rate + other); 0 where both are zero."""
    whole = rate + other
    return rate / torch.where(whole > 0, whole, torch.ones_like(whole))


def _decayed_time(rate: Tensor, dt: Tensor) -> Tensor:
    """∫₀^dt e^(−rate·s) ds, which is dt where the rate is zero."""
    moving = rate > 0
    safe = torch.where(moving, rate, torch.ones_like(rate))
    return torch.where(moving, -torch.expm1(-safe * dt) / safe, dt)


def euler_maruyama(c: Tensor, gain: Tensor, loss: Tensor, sigma: Tensor, dt: Tensor, normal: Tensor) -> Tensor:
    """One Euler–Maruyama step with clipping (Algorithm 1 of the paper); `normal` is standard normal noise."""
    noise = sigma * torch.sqrt(dt * c * (1 - c)) * normal
    return (c + dt * drift(c, gain, loss) + noise).clamp(0, 1)


def matched_beta(
    c: Tensor,
    gain: Tensor,
    loss: Tensor,
    sigma: Tensor,
    dt: Tensor,
    beta: Callable[[Tensor, Tensor], Tensor],
) -> Tensor:
    """One step drawn from the Beta distribution with the exact mean and variance, for any dt; always in [0, 1].

    `beta(p, q)` draws Beta(p, q) variates. Where the variance is zero (σ = 0, or c at an absorbing end) the result is
    the mean.
    """
    expected = mean(c, gain, loss, dt).clamp(0, 1)
    spread = variance(c, gain, loss, sigma, dt)
    room = expected * (1 - expected)
    random = (spread > 0) & (room > 0)
    concentration = torch.where(random, room / torch.where(random, spread, torch.ones_like(spread)) - 1, 1.0)
    concentration = concentration.clamp_min(1e-12)  # 0: all mass at the two ends; rounding must not make it negative
    drawn = beta(
        torch.where(random, expected, 0.5) * concentration, torch.where(random, 1 - expected, 0.5) * concentration
    )
    return torch.where(random, drawn, expected)


def next_phase(phase: Tensor, c: Tensor, enter: tuple[Tensor, Tensor], leave: tuple[Tensor, Tensor]) -> Tensor:
    """The phase given c: demotions first, then promotions, possibly by several phases.

    An experience is promoted above `enter` = (τ_L, τ_C) and demoted below `leave`, the thresholds less the hysteresis
    bands (−1 = never). Empty slots stay empty.
    """
    occupied = phase != EMPTY
    fallen = torch.where((phase == CRYSTAL) & (c < leave[1]), GLASS, phase)
    fallen = torch.where((fallen == GLASS) & (c < leave[0]), LIQUID, fallen)
    risen = torch.where((fallen == LIQUID) & (c > enter[0]), GLASS, fallen)
    risen = torch.where((risen == GLASS) & (c > enter[1]), CRYSTAL, risen)
    return torch.where(occupied, risen, phase).to(phase.dtype)
