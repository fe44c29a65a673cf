"""Prioritized replay: draw in proportion to |TD error|^α, correct with importance weights (Schaul et al. 2016)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from crystalrl.memory.draw import WeightTree
from crystalrl.memory.ledger import Ring
from crystalrl.random import Stream, Streams

PerLane = float | Sequence[float]


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


def per_lane(name: str, value: PerLane, lanes: int, device: torch.device) -> Tensor:
    """float64[L, 1] of a scalar or one value per lane."""
    values = torch.as_tensor(value, dtype=torch.float64, device=device).reshape(-1, 1)
    if values.shape[0] not in (1, lanes):
        raise ValueError(f"{name}: wanted one number, or {lanes} (one per lane), got {values.shape[0]}")
    return values.expand(lanes, 1).contiguous()


def importance(share: Tensor, count: Tensor, beta: Tensor) -> Tensor:
    """float32 weights (n·p)^(−β), divided by the largest of each lane's batch; share [L, B], count and beta [L, 1]."""
    weight = (share * count) ** -beta
    return (weight / weight.amax(-1, keepdim=True)).to(torch.float32)


class PrioritizedLedger:
    """Draw weights in a tree of sums. Invariant: a slot has a positive weight and label 0 exactly if it is occupied."""

    learns = True

    def __init__(self, lanes: int, slots: int, streams: Streams, params: PrioritizedParams) -> None:
        device = streams.device
        self.ring, self.streams, self.params = Ring(lanes, slots, device), streams, params
        self.tree = WeightTree(lanes, slots, 1, device)
        self.alpha = per_lane("alpha", params.alpha, lanes, device)
        self.beta = per_lane("beta", params.beta, lanes, device)
        self.highest = torch.ones(lanes, dtype=torch.float32, device=device)
        """Largest draw weight seen so far: what a new experience gets."""

    @property
    def count(self) -> Tensor:
        return self.ring.count

    @property
    def nbytes(self) -> int:
        return self.tree.nbytes + self.highest.nbytes

    def place(self, valid: Tensor) -> Tensor:
        return self.ring.place(valid)

    def written(self, slots: Tensor) -> None:
        weight = self.highest[:, None].expand_as(slots)
        self.tree.set(slots, weight, torch.zeros(slots.shape, dtype=torch.uint8, device=slots.device))

    def place_one(self) -> int:
        slot = self.ring.place_one()
        self.tree.set_one(slot, float(self.highest), 0)
        return slot

    def draw(self, size: int, time: Tensor) -> tuple[Tensor, Tensor]:
        uniform = self.streams.uniform(Stream.DRAW, size)
        slots, share = self.tree.draw(uniform, torch.zeros(uniform.shape, dtype=torch.uint8, device=uniform.device))
        return slots, importance(share, self.count[:, None], self._beta_at(time))

    def _beta_at(self, time: Tensor) -> Tensor:
        if self.params.is_steps is None:
            return self.beta
        progress = (time[:, None].to(torch.float64) / self.params.is_steps).clamp_max(1.0)
        return self.beta + (1 - self.beta) * progress

    def update(self, slots: Tensor, magnitude: Tensor) -> None:
        weight = ((magnitude.to(torch.float64) + self.params.epsilon) ** self.alpha).to(torch.float32)
        self.tree.set(slots, weight, torch.zeros(slots.shape, dtype=torch.uint8, device=slots.device))
        kept = torch.where(slots >= 0, weight, 0.0)
        torch.maximum(self.highest, kept.amax(-1), out=self.highest)

    def tensors(self) -> dict[str, Tensor]:
        return {
            "number": self.ring.number,
            "highest": self.highest,
            "slot.weight": self.tree.weight[:, : self.tree.slots],
            "slot.label": self.tree.label[:, : self.tree.slots],
        }

    def refresh(self) -> None:
        self.tree.rebuild()

    def clear(self) -> None:
        self.ring.clear()
        self.tree.clear()
        self.highest.fill_(1.0)

    def check(self) -> None:
        self.tree.check()
        occupied = torch.arange(self.tree.slots, device=self.highest.device) < self.count[:, None]
        drawable = (self.tree.weight[:, : self.tree.slots] > 0) & (self.tree.label[:, : self.tree.slots] == 0)
        if not torch.equal(occupied, drawable):
            raise AssertionError("prioritized: occupied slots and drawable slots differ")
