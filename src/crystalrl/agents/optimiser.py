"""Adam and gradient clipping on rows of parameters, one row per lane."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from crystalrl.agents.networks import row_norm
from crystalrl.backends import backend_for
from crystalrl.lanes import PerLane, per_lane

BETA1, BETA2, EPS = 0.9, 0.999, 1e-8
SCHEDULES: dict[str, Callable[[Tensor], Tensor] | None] = {
    "constant": None,
    "cosine": lambda t: 0.5 + 0.5 * torch.cos(math.pi * t.clamp_max(1.0)),
    "step": lambda t: 0.5 ** t.floor(),
    "robbins-monro": lambda t: 1.0 / (1.0 + t),
}
"""Factor of the learning rate after t horizons."""
_LOG_BETAS = (math.log(BETA1), math.log(BETA2))


def clipped(gradient: Tensor, limit: float) -> tuple[Tensor, Tensor]:
    """The gradient [L, P], each lane's scaled to a norm of at most `limit`, and the norms [L] before."""
    norm = row_norm(gradient)
    return gradient * (limit / norm.clamp_min(limit)), norm.squeeze(-1)


class LaneAdam:
    """Adam (Kingma and Ba 2015) with a learning rate per lane. All state is on the device and changes in place.

    `schedule` lowers the rate with the number of steps t over a horizon T: "constant"; "cosine", ½ + ½·cos(π·t/T), 0
    from T on; "step", ½ to the power of ⌊t/T⌋; "robbins-monro", 1 / (1 + t/T), whose sum diverges while the sum of its
    squares converges (Robbins and Monro 1951).

    Invariant: `steps` counts the steps taken; the moments have the shape of the parameters.
    """

    def __init__(
        self, theta: Tensor, learning_rate: PerLane, schedule: str = "constant", horizon: int = 100_000
    ) -> None:
        self.rate = per_lane("learning_rate", learning_rate, theta.shape[0], theta.device, torch.float32)
        self.factor, self.horizon = SCHEDULES[schedule], horizon
        self.first, self.second = torch.zeros_like(theta), torch.zeros_like(theta)
        self.steps = torch.zeros((), dtype=torch.int64, device=theta.device)
        self._kernel = backend_for(theta.device).adam

    @torch.no_grad()
    def step(self, theta: Tensor, gradient: Tensor, when: Tensor | None = None) -> None:
        """Update theta [L, P] in place from the gradient [L, P]; `when`, a scalar 0 or 1: at 0 nothing changes."""
        rate = self.rate if self.factor is None else self.rate * self.factor(self.steps / self.horizon)
        self.steps += 1 if when is None else when.to(torch.int64)
        if self._kernel is not None:
            moments = (self.first, self.second)
            self._kernel(theta, gradient, *moments, rate, self.steps, when, (BETA1, BETA2), EPS)
            return
        if when is None:
            self.first.lerp_(gradient, 1 - BETA1)
            self.second.mul_(BETA2).addcmul_(gradient, gradient, value=1 - BETA2)
        else:
            self.first.lerp_(gradient, (1 - BETA1) * when)
            self.second.lerp_(gradient.square(), (1 - BETA2) * when)
            rate = rate * when
        first_bias, second_bias = (-torch.expm1(self.steps.double() * log_beta).float() for log_beta in _LOG_BETAS)
        if when is not None:  # before the first step both are 0; the clamp avoids 0/0
            first_bias, second_bias = first_bias.clamp_min(1e-3), second_bias.clamp_min(1e-6)
        spread = (self.second / second_bias).sqrt_().add_(EPS)
        theta.sub_((self.first * (rate / first_bias)).div_(spread))

    def every(self, count: int) -> Tensor:
        """Scalar float32: 1 after every `count` steps, 0 between."""
        return (self.steps % count == 0).to(torch.float32)

    def tensors(self) -> dict[str, Tensor]:
        """Live tensors that make up the state."""
        return {"first": self.first, "second": self.second, "steps": self.steps}
