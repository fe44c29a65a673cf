"""The experiences in a crystal memory, for inspection."""

from __future__ import annotations

from typing import Any

import torch

from crystalrl.dynamics import PHASES
from crystalrl.memory.crystal.ledger import CrystalLedger
from crystalrl.memory.storage.external import AnyArena
from crystalrl.memory.storage.layout import TERMINATED, TRUNCATED


def contents(
    ledger: CrystalLedger, arena: AnyArena, phase: str | None, lane: int, most: int | None = None
) -> dict[str, Any]:
    """The experiences of a lane, of one phase or all; see `CrystalMemory.experiences`."""
    if phase is not None and phase not in PHASES[1:]:
        raise ValueError(f"phase: wanted one of {', '.join(PHASES[1:])} or None, got {phase!r}")
    phases = ledger.phase[lane]
    slots = (phases > 0 if phase is None else phases == PHASES.index(phase)).nonzero()[:, 0]
    if most is not None and len(slots) > most:
        slots = slots[torch.arange(most, device=slots.device) * len(slots) // most]
    rows = arena.read_lane(lane, slots)
    ending = arena.endings(rows)
    state = {"c": ledger.c, "utility": ledger.utility, "error": ledger.error, "interference": ledger.interference}
    state |= {"phase": ledger.phase, "number": ledger.birth}
    return {
        **arena.unpack(rows),
        "terminated": (ending & TERMINATED) > 0,
        "truncated": (ending & TRUNCATED) > 0,
        **{name: values[lane, slots] for name, values in state.items()},
        "index": slots,
    }
