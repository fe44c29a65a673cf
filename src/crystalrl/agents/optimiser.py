"""Adam and gradient clipping on rows of parameters, one row per lane."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from crystalrl.agents.networks import row_norm

PerLane = float | Sequence[float]
FIRST_DECAY, SECOND_DECAY, STABLE = 0.9, 0.999, 1e-8
_LOGARITHMS = (math.log(FIRST_DECAY), math.log(SECOND_DECAY))


def lane_column(name: str, value: PerLane, lanes: int, device: torch.device) -> Tensor:
    """float32[L, 1] of one number, or of one per lane."""
    column = torch.as_tensor(value, dtype=torch.float32, device=device).reshape(-1, 1)
    if column.shape[0] not in (1, lanes):
        raise ValueError(f"{name}: wanted one number, or {lanes} (one per lane), got {column.shape[0]}")
    return column.expand(lanes, 1).contiguous()


def clipped(gradient: Tensor, limit: float) -> tuple[Tensor, Tensor]:
    """The gradient [L, P], each lane's scaled to a norm of at most `limit`, and the norms [L] before."""
    norm = row_norm(gradient)
    return gradient * (limit / norm.clamp_min(limit)), norm.squeeze(-1)


class LaneAdam:
    """Adam (Kingma and Ba 2015), a learning rate per lane. All state is on the device and changed in place.

    Invariant: `steps` counts the calls; the moments have the shape of the parameters.
    """

    def __init__(self, theta: Tensor, learning_rate: PerLane) -> None:
        self.rate = lane_column("learning_rate", learning_rate, theta.shape[0], theta.device)
        self.first, self.second = torch.zeros_like(theta), torch.zeros_like(theta)
        self.steps = torch.zeros((), dtype=torch.int64, device=theta.device)

    @torch.no_grad()
    def step(self, theta: Tensor, gradient: Tensor) -> None:
        """Move theta [L, P] in place along the gradient [L, P]."""
        self.steps += 1
        self.first.lerp_(gradient, 1 - FIRST_DECAY)
        self.second.mul_(SECOND_DECAY).addcmul_(gradient, gradient, value=1 - SECOND_DECAY)
        first_bias, second_bias = (-torch.expm1(self.steps.double() * rate).float() for rate in _LOGARITHMS)
        spread = (self.second / second_bias).sqrt_().add_(STABLE)
        theta.sub_((self.first * (self.rate / first_bias)).div_(spread))

    def tensors(self) -> dict[str, Tensor]:
        """Live tensors that make up the state."""
        return {"first": self.first, "second": self.second, "steps": self.steps}
