"""Anchors: stored network outputs for each experience, and how strongly the network is pulled towards them."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from crystalrl.backends import backend_for
from crystalrl.backends.torch_writes import pull
from crystalrl.lanes import per_lane
from crystalrl.memory.crystal.ledger import EVALUATED, CrystalLedger
from crystalrl.memory.storage.spec import Shape
from crystalrl.types import Anchor

POLICY = "policy"
"""Name of the anchor that pulls in units of value; see `Evaluation.stake`."""


class Anchors(dict[str, Tensor]):
    """Targets float32[L, N, …] by output name, of the experiences in a ledger."""

    def __init__(self, shapes: Mapping[str, Shape], ledger: CrystalLedger, device: torch.device) -> None:
        lanes, slots, params = ledger.lanes, ledger.slots, ledger.params
        self._ledger = ledger
        for name, shape in shapes.items():
            self[name] = torch.zeros(lanes, slots, *_checked(name, shape), dtype=torch.float32, device=device)
        if shapes and not params.uses_anchors:
            raise ValueError(f"anchor: wanted none, since kappa is 0 and settle off, got {sorted(shapes)}; set kappa")
        kappa = params.kappa
        self._shared = not isinstance(kappa, Mapping)
        """Whether all anchors have the same strength."""
        if isinstance(kappa, Mapping) and set(kappa) != set(self):
            raise ValueError(f"kappa: wanted the anchors {sorted(self)}, got {sorted(kappa)}")
        self._kappa = {
            name: per_lane("kappa", kappa[name] if isinstance(kappa, Mapping) else kappa, lanes, device)
            for name in self
        }
        self._power = per_lane("anchor_power", params.anchor_power, lanes, device)
        self.unit = torch.ones(lanes, dtype=torch.float32, device=device)
        """float32[L]: unit of the policy's anchor, what is at stake; 1 if that is unknown."""
        self._unit = self.unit[:, None]
        self._writes = backend_for(device).writes

    def at(self, slots: Tensor) -> dict[str, Anchor]:
        """The anchors of slots int64[L, B] now."""
        return self.of(slots, self._ledger.held, self._ledger.flags)

    def of(self, slots: Tensor, c: Tensor, flags: Tensor) -> dict[str, Anchor]:
        """The anchors of slots int64[L, B]; c and flags [L, N] are the ledger's columns, or copies of them."""
        out: dict[str, Anchor] = {}
        for name, anchor in self.items():
            target = self._writes.take(anchor, slots)
            if not out or not self._shared:
                kappa = self._kappa[name]
                strength = self._writes.strength(c, flags, slots, kappa, self._power, EVALUATED)
            out[name] = Anchor(target, strength * self._unit if name == POLICY else strength)
        return out

    def tensors(self) -> dict[str, Tensor]:
        """The state besides the targets."""
        return {"unit": self.unit} if POLICY in self else {}

    def rewrite(self, planned: Mapping[str, Tensor], kept: Tensor, unit: Tensor) -> None:
        """Write targets [L, W, …], by name, to the first W slots where kept bool[L, W] holds, and the unit [L]."""
        self.unit.copy_(unit)
        for name, anchor in self.items():
            own = anchor[:, : kept.shape[1]]
            own.copy_(torch.where(_like(kept, own), planned[name], own))

    def clear_slots(self, slots: Tensor) -> None:
        """Set the targets of evicted experiences, slots bool[L, W], to zero."""
        for anchor in self.values():
            own = anchor[:, : slots.shape[1]]
            own.masked_fill_(_like(slots, own), 0.0)

    def clear_all(self) -> None:
        for anchor in self.values():
            anchor.zero_()
        self.unit.fill_(1.0)

    def pull(self, c: Tensor, flags: Tensor) -> Tensor:
        """float32[L, N]: total strength of the anchors of each experience."""
        strength = torch.zeros_like(c)
        for name, kappa in self._kappa.items():
            unit = self.unit[:, None] if name == POLICY else 1.0
            strength += pull(c, flags, kappa, self._power, EVALUATED) * unit
        return strength


def _like(mask: Tensor, other: Tensor) -> Tensor:
    """mask [L, W] with axes of size one added, to broadcast with other [L, W, …]."""
    return mask.view(*mask.shape, *([1] * (other.dim() - 2)))


def _checked(name: str, shape: Shape) -> Shape:
    if not isinstance(shape, tuple) or not all(isinstance(n, int) and n > 0 for n in shape):
        raise ValueError(f"anchor {name}: wanted the shape of an output such as (5,), got {shape!r}")
    return shape
