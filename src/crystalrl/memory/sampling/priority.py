"""How TD errors become draw weights, and how weights of drawn experiences are corrected and gated."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from crystalrl.backends.protocols import UNLABELLED, Weighting


class Annealed(NamedTuple):
    """An exponent float64[L, 1] that rises linearly from `start` to 1 over `steps` environment steps (None: never)."""

    start: Tensor
    steps: int | None = None

    def at(self, time: Tensor) -> Tensor:
        """float64[L, 1] after `time` int64[L] environment steps."""
        if self.steps is None:
            return self.start
        return self.start + (1 - self.start) * (time[:, None].to(torch.float64) / self.steps).clamp_max(1.0)


class LossGate:
    """The factor max((1 − c)^power, floor) of the loss weights: c float32[L, N], power and floor float64[L, 1].

    If c is empty, the factor is 1.
    """

    def __init__(self, c: Tensor, power: Tensor, floor: Tensor) -> None:
        self.c, self.power, self.floor = self.tensors = c, power, floor
        self.arrays: tuple[NDArray[Any], ...] = ()
        """NumPy views of the tensors, on CPU."""
        if c.device.type == "cpu":
            self.arrays = (c.numpy(), power.numpy(), floor.numpy())

    def factor(self, slots: Tensor) -> Tensor | float:
        """float32[L, B] of slots int64[L, B]."""
        return self.of(self.c.gather(1, slots)) if self.c.shape[1] else 1.0

    def of(self, c: Tensor) -> Tensor:
        """The factor for c, float32 of the same shape."""
        return torch.maximum((1 - c.to(torch.float64)) ** self.power, self.floor).to(torch.float32)


class PriorityRule:
    """Draw weights from |TD error|: the `weighting` of each stratum applied to base = (|TD error| + ε)^exponent.

    exponent float64[L, 1]. max_priority float32[L] is the largest base so far, which new experiences start with. If
    weights also depend on c float32[L, N], they are at least ε, and |TD error| is written to error float32[L, N + 1],
    whose last column is spare.
    """

    def __init__(
        self,
        epsilon: float,
        exponent: Tensor,
        max_priority: Tensor,
        weighting: tuple[Weighting, ...] = (Weighting.BASE,),
        state: tuple[Tensor, Tensor] | None = None,
    ) -> None:
        nothing = torch.zeros(len(max_priority), 0, dtype=torch.float32, device=max_priority.device)
        self.epsilon, self.exponent, self.max_priority, self.weighting = epsilon, exponent, max_priority, weighting
        self.c, self.error = state or (nothing, nothing)
        self.arrays: tuple[Any, ...] = ()
        """c, error, weighting, ε, exponent and max_priority as NumPy views and numbers, on CPU."""
        if max_priority.device.type == "cpu":
            by_stratum = tuple(int(how) for how in weighting)
            numbers = (by_stratum, epsilon, exponent.numpy(), max_priority.numpy())
            self.arrays = (self.c.numpy(), self.error.numpy(), *numbers)

    def base(self, magnitude: Tensor) -> Tensor:
        """float32[L, B] from |TD error| float32[L, B]."""
        if magnitude.device.type == "cpu":  # the same bits as the compiled loops
            wide = magnitude.numpy().astype(np.float64)
            return torch.from_numpy(((wide + self.epsilon) ** self.exponent.numpy()).astype(np.float32))
        return ((magnitude.to(torch.float64) + self.epsilon) ** self.exponent).to(torch.float32)

    def weight(self, label: Tensor, base: Tensor, slots: Tensor | None = None) -> Tensor:
        """Draw weights float32[L, B] of slots int64[L, B] (None: all, in order) with the given labels and base."""
        if not self.c.shape[1]:
            return base
        c, weight = self.c if slots is None else self.c.gather(1, slots), base
        for stratum, how in enumerate(self.weighting):
            if how == Weighting.BASE_ROOT_C:
                weight = torch.where(label == stratum, base * c.sqrt(), weight)
            elif how == Weighting.C:
                weight = torch.where(label == stratum, c, weight)
        return torch.where(label == UNLABELLED, 0.0, weight.clamp_min(self.epsilon))
