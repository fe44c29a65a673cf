"""What a network's outputs were: targets of the experiences, and how firmly they hold."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from crystalrl.memory.crystal_ledger import EVALUATED, CrystalLedger
from crystalrl.memory.prioritized import per_lane
from crystalrl.memory.spec import Shape
from crystalrl.params import CrystalParams


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

    def of(self, slots: Tensor, ledger: CrystalLedger) -> dict[str, tuple[Tensor, Tensor]]:
        """Targets [L, B, …] and strengths float32[L, B] of slots int64[L, B]."""
        c, flags = ledger.c.gather(1, slots), ledger.flags.gather(1, slots)
        lanes = len(slots)
        wide = slots if lanes == 1 else slots + torch.arange(lanes, device=slots.device)[:, None] * ledger.slots
        flat = wide.reshape(-1)
        out: dict[str, tuple[Tensor, Tensor]] = {}
        for name, anchor in self.items():
            target = anchor.flatten(0, 1).index_select(0, flat).view(*slots.shape, *anchor.shape[2:])
            known = self._one and out  # the same strength for all
            out[name] = target, next(iter(out.values()))[1] if known else self._strength(self._kappa[name], c, flags)
        return out

    def pull(self, ledger: CrystalLedger) -> Tensor:
        """float32[L, N]: strength of all anchors of each experience together."""
        strength = torch.zeros_like(ledger.c)
        for kappa in self._kappa.values():
            strength += self._strength(kappa, ledger.c, ledger.flags)
        return strength

    def _strength(self, kappa: Tensor, c: Tensor, flags: Tensor) -> Tensor:
        """κ·c^p, and 0 until first evaluated."""
        return (kappa * c**self._power * ((flags & EVALUATED) > 0)).to(torch.float32)


def _checked(name: str, shape: Shape) -> Shape:
    if not isinstance(shape, tuple) or not all(isinstance(n, int) and n > 0 for n in shape):
        raise ValueError(f"anchor {name}: wanted the shape of an output such as (5,), got {shape!r}")
    return shape
