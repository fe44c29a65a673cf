"""What a network's outputs were: targets of the experiences, and how firmly they hold."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from crystalrl import backends
from crystalrl.lanes import per_lane
from crystalrl.memory.crystal.ledger import EVALUATED
from crystalrl.memory.storage.spec import Shape
from crystalrl.params import CrystalParams
from crystalrl.types import Anchor


class Anchors(dict[str, Tensor]):
    """Targets float32[L, N, …] by name."""

    def __init__(
        self, shapes: Mapping[str, Shape], lanes: int, slots: int, params: CrystalParams, device: torch.device
    ) -> None:
        for name, shape in shapes.items():
            self[name] = torch.zeros(lanes, slots, *_checked(name, shape), device=device)
        kappa = params.kappa
        self._one = not isinstance(kappa, Mapping)
        if isinstance(kappa, Mapping) and set(kappa) != set(self):
            raise ValueError(f"kappa: wanted the anchors {sorted(self)}, got {sorted(kappa)}")
        self._kappa = {
            name: per_lane("kappa", kappa[name] if isinstance(kappa, Mapping) else kappa, lanes, device)
            for name in self
        }
        self._power = per_lane("anchor_power", params.anchor_power, lanes, device)
        self._first, self._fused = torch.arange(lanes, device=device)[:, None] * slots, backends.fused_for(device)
        """Where a lane's anchors begin."""

    def at(self, slots: Tensor, c: Tensor, flags: Tensor) -> dict[str, Anchor]:
        """Targets [L, B, …] and strengths float32[L, B] of slots int64[L, B]."""
        flat = (slots if len(slots) == 1 else slots + self._first).reshape(-1)
        out: dict[str, Anchor] = {}
        for name, anchor in self.items():
            target = anchor.flatten(0, 1).index_select(0, flat).view(*slots.shape, *anchor.shape[2:])
            known = self._one and out  # the same strength for all
            out[name] = Anchor(
                target, next(iter(out.values())).coefficient if known else self._strength_at(name, slots, c, flags)
            )
        return out

    def _strength_at(self, name: str, slots: Tensor, c: Tensor, flags: Tensor) -> Tensor:
        """float32[L, B] in slots int64[L, B]."""
        kappa = self._kappa[name]
        if self._fused is not None:
            strength: Tensor = self._fused.strength(c, flags, slots, kappa, self._power, EVALUATED)
            return strength
        return self._strength(kappa, c.gather(1, slots), flags.gather(1, slots))

    def pull(self, c: Tensor, flags: Tensor) -> Tensor:
        """float32[L, N]: strength of all anchors of each experience together."""
        strength = torch.zeros_like(c)
        for kappa in self._kappa.values():
            strength += self._strength(kappa, c, flags)
        return strength

    def _strength(self, kappa: Tensor, c: Tensor, flags: Tensor) -> Tensor:
        """κ·c^p, and 0 until first evaluated."""
        return (kappa * c**self._power * ((flags & EVALUATED) > 0)).to(torch.float32)


def _checked(name: str, shape: Shape) -> Shape:
    if not isinstance(shape, tuple) or not all(isinstance(n, int) and n > 0 for n in shape):
        raise ValueError(f"anchor {name}: wanted the shape of an output such as (5,), got {shape!r}")
    return shape
