"""Prioritized replay: draw in proportion to |TD error|^α, correct with importance weights (Schaul et al. 2016)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from crystalrl.lanes import PerLane, per_lane
from crystalrl.memory.ledger import Ring
from crystalrl.memory.sampling.sum_tree import Learning, WeightTree
from crystalrl.random import Streams

SMALLEST = torch.finfo(torch.float32).tiny


@dataclass(frozen=True)
class PrioritizedParams:
    """Exponents of prioritized replay. A float holds for every lane; a sequence gives one per lane."""

    alpha: PerLane = 0.6
    """Exponent of |TD error| + epsilon in the draw weight; 0 draws uniformly."""
    beta: PerLane = 0.4
    """Exponent of the importance weight at the start; 1 corrects fully."""
    is_steps: int | None = None
    """Environment steps over which beta rises linearly to 1; None keeps it constant."""
    epsilon: float = 1e-6
    """Keeps an experience without TD error drawable."""

    def __post_init__(self) -> None:
        for name in ("alpha", "beta"):
            values = getattr(self, name)
            for value in values if isinstance(values, Sequence) else (values,):
                if not 0 <= value <= 1:
                    raise ValueError(f"{name}: wanted numbers in [0, 1], got {value}")
        if self.is_steps is not None and self.is_steps < 1:
            raise ValueError(f"is_steps: wanted a whole number ≥ 1 or None, got {self.is_steps}")
        if not 0 < self.epsilon < float("inf"):
            raise ValueError(f"epsilon: wanted a finite number > 0, got {self.epsilon}")
        highest = max(self.alpha) if isinstance(self.alpha, Sequence) else self.alpha
        if self.epsilon < 1 and self.epsilon**highest < SMALLEST:
            raise ValueError(f"epsilon: wanted ε^alpha ≥ {SMALLEST:.3g}, a float32 above zero, got {self.epsilon}")


def annealed(start: Tensor, steps: int | None, time: Tensor) -> Tensor:
    """float64[L, 1]: from `start` [L, 1] linearly to 1 over so many environment steps; `time` int64[L] have passed."""
    if steps is None:
        return start
    return start + (1 - start) * (time[:, None].to(torch.float64) / steps).clamp_max(1.0)


class PrioritizedLedger(Ring):
    """Draw weights in a tree of sums. Invariant: a slot has a positive weight exactly if it is occupied."""

    def __init__(self, lanes: int, slots: int, streams: Streams, params: PrioritizedParams) -> None:
        super().__init__(lanes, slots, streams)
        device, self.params = streams.device, params
        self.tree = WeightTree(lanes, slots, 1, device)
        self.beta = per_lane("beta", params.beta, lanes, device)
        self.highest = torch.ones(lanes, dtype=torch.float32, device=device)
        """Largest draw weight seen so far: what a new experience gets."""
        self._highest = self.highest.numpy() if self._kernels else np.empty(0, np.float32)
        nothing = torch.zeros(lanes, 0, device=device)
        alpha = per_lane("alpha", params.alpha, lanes, device)
        self.rule = Learning(params.epsilon, alpha, self.highest, nothing, nothing)
        self._zeros = torch.zeros(0, dtype=torch.uint8)
        self._filled = torch.zeros(lanes, 1, dtype=torch.float64)

    @property
    def nbytes(self) -> int:
        return self.tree.nbytes + self.highest.nbytes

    def commit(self, slots: Tensor) -> None:
        if self._fused is not None:
            self.tree.write(slots, self.highest)
            return
        weight = self.highest[:, None].expand_as(slots)
        self.tree.set(slots, weight.contiguous(), self._label(slots.shape))
        self.tree.renew(slots)

    def add_one(self) -> int:
        slot = super().add_one()
        self.tree.set_one(slot, self._highest.item(), 0)
        return slot

    def draw(self, size: int, time: Tensor) -> tuple[Tensor, Tensor]:
        stratum = self._label(torch.Size((self.lanes, size)))
        return self.tree.sample(self.streams, stratum, self._counted(), annealed(self.beta, self.params.is_steps, time))

    def _counted(self) -> Tensor:
        """float64[L, 1] occupied slots."""
        if self._kernels is None:
            return self.count[:, None].to(torch.float64)
        self._filled.numpy()[:, 0] = np.minimum(self._number, self.slots)
        return self._filled

    def _label(self, shape: torch.Size) -> Tensor:
        """The label of the only stratum, uint8 of the given shape."""
        if self._zeros.shape != shape:
            self._zeros = torch.zeros(shape, dtype=torch.uint8, device=self.highest.device)
        return self._zeros

    def update(self, slots: Tensor, magnitude: Tensor) -> None:
        self.tree.learn(slots, magnitude, self.rule)

    def tensors(self) -> dict[str, Tensor]:
        return {**super().tensors(), "highest": self.highest, **self.tree.tensors()}

    def refresh(self) -> None:
        self.tree.rebuild()

    def clear(self) -> None:
        super().clear()
        self.tree.clear()
        self.highest.fill_(1.0)

    def forget_draws(self) -> None:
        self.tree.disclaim()

    def check(self) -> None:
        super().check()
        self.tree.check()
        occupied = torch.arange(self.tree.slots, device=self.highest.device) < self.count[:, None]
        drawable = self.tree.weight[:, : self.tree.slots] > 0
        if not torch.equal(occupied, drawable):
            raise AssertionError("prioritized: occupied slots and drawable slots differ")
