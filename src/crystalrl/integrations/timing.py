"""When time begins for a memory inside another library's loop."""

from __future__ import annotations

from crystalrl.memory import Consolidation, CrystalMemory
from crystalrl.types import Evaluate


def consolidate(memory: CrystalMemory, evaluate: Evaluate) -> Consolidation:
    """As `memory.consolidate`, but before the first one no time has passed: the warm-up before learning does not count
    as time in which anything settled.
    """
    if memory.params.clock == "steps" and not bool(memory.turns.any()):
        memory.ledger.updated.copy_(memory.time[:, None].expand_as(memory.ledger.updated))
    return memory.consolidate(evaluate)
