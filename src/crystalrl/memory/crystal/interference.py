"""How contradictions spread: an experience whose future is contradicted is suspect itself."""

from __future__ import annotations

import torch
from torch import Tensor

from crystalrl.memory.neighbours.exact import Near


def back_up(
    flagged: Tensor, near: Near, alive: Tensor, factor: float, sweeps: int, last: Tensor | None = None
) -> Tensor:
    """W float32[L, N]: W ← max(I, factor·mean W of the neighbours of s′), so many times, from I or from the last W.

    flagged bool[L, N] is I; alive bool[L, N]: whether the episode went on after s′. Both ways lead to the same W, which
    is unique for factor < 1. From I it is reached from below. From the last W one or two sweeps do, but what is no
    longer contradicted is slow to be forgotten: experiences that are each other's future keep suspicion alive.
    """
    suspicion = own = flagged.to(torch.float32)
    if last is not None:
        suspicion = torch.maximum(own, last)
    zero = torch.zeros(len(own), 1, device=own.device)
    if not bool(suspicion.any()):
        return suspicion
    for _ in range(sweeps):
        before, suspicion = suspicion, torch.maximum(own, factor * near.mean(suspicion, zero, first=5) * alive)
        if torch.equal(before, suspicion):
            break
    return suspicion
