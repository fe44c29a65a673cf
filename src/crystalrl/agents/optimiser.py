"""Adam and gradient clipping on rows of parameters, one row per lane."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from crystalrl.agents.networks import row_norm
from crystalrl.backends import backend_for

PerLane = float | Sequence[float]
FIRST_DECAY, SECOND_DECAY, STABLE = 0.9, 0.999, 1e-8
SCHEDULES: dict[str, Callable[[Tensor], Tensor] | None] = {
    "constant": None,
    "cosine": lambda t: 0.5 + 0.5 * torch.cos(math.pi * t.clamp_max(1.0)),
    "robbins-monro": lambda t: 1.0 / (1.0 + t),
}
"""Factor of the learning rate after t horizons."""
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

    `schedule` lowers the rate with the steps t over a horizon T: "constant"; "cosine", ½ + ½·cos(π·t/T), 0 from T on;
    "robbins-monro", 1 / (1 + t/T), whose sum diverges while that of its squares does not (Robbins and Monro 1951).

    Invariant: `steps` counts the steps taken; the moments have the shape of the parameters.
    """

    def __init__(
        self, theta: Tensor, learning_rate: PerLane, schedule: str = "constant", horizon: int = 100_000
    ) -> None:
        self.rate = lane_column("learning_rate", learning_rate, theta.shape[0], theta.device)
        self.factor, self.horizon = SCHEDULES[schedule], horizon
        self.first, self.second = torch.zeros_like(theta), torch.zeros_like(theta)
        self.steps = torch.zeros((), dtype=torch.int64, device=theta.device)
        self._kernel = backend_for(theta.device).adam

    @torch.no_grad()
    def step(self, theta: Tensor, gradient: Tensor, when: Tensor | None = None) -> None:
        """Move theta [L, P] in place along the gradient [L, P]; where `when` (a scalar 0 or 1) is 0, nothing."""
        rate = self.rate if self.factor is None else self.rate * self.factor(self.steps / self.horizon)
        self.steps += 1 if when is None else when.to(torch.int64)
        if self._kernel is not None:
            moments = (self.first, self.second)
            self._kernel(theta, gradient, *moments, rate, self.steps, when, (FIRST_DECAY, SECOND_DECAY), STABLE)
            return
        if when is None:
            self.first.lerp_(gradient, 1 - FIRST_DECAY)
            self.second.mul_(SECOND_DECAY).addcmul_(gradient, gradient, value=1 - SECOND_DECAY)
        else:
            self.first.lerp_(gradient, (1 - FIRST_DECAY) * when)
            self.second.lerp_(gradient.square(), (1 - SECOND_DECAY) * when)
            rate = rate * when
        first_bias, second_bias = (-torch.expm1(self.steps.double() * decay).float() for decay in _LOGARITHMS)
        if when is not None:  # before the first step both are 0, and so is the rate
            first_bias, second_bias = first_bias.clamp_min(1e-3), second_bias.clamp_min(1e-6)
        spread = (self.second / second_bias).sqrt_().add_(STABLE)
        theta.sub_((self.first * (rate / first_bias)).div_(spread))

    def tensors(self) -> dict[str, Tensor]:
        """Live tensors that make up the state."""
        return {"first": self.first, "second": self.second, "steps": self.steps}
