"""A critic's answers, checked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from crystalrl.memory.storage.spec import Shape

if TYPE_CHECKING:
    from crystalrl.memory.crystal.memory import CrystalMemory


def inner(memory: CrystalMemory, name: str, answer: Tensor, shape: Shape) -> Tensor:
    """A critic's answer [L, *shape] (or [*shape] without lanes) as [L, *shape] on the memory's device."""
    wanted = shape if memory.spec.lanes is None else (memory.lanes, *shape)
    if not isinstance(answer, Tensor) or tuple(answer.shape) != wanted:
        got = list(answer.shape) if isinstance(answer, Tensor) else type(answer).__name__
        raise ValueError(f"evaluate: wanted {name} of shape {list(wanted)}, got {got}")
    answer = answer.detach().to(memory.device)
    return answer[None] if memory.spec.lanes is None else answer


def refuse_unfinite(chosen: Tensor, answers: Mapping[str, Tensor]) -> None:
    """Raise if a critic said NaN or infinity of a chosen experience."""
    for name, answer in answers.items():
        bad = ~torch.isfinite(answer).view(*chosen.shape, -1).all(-1)
        if bool((bad & chosen).any()):
            lanes = (bad & chosen).any(-1).nonzero()[:, 0].tolist()
            raise ValueError(f"evaluate: wanted finite {name}, got NaN or infinity in lanes {lanes[:8]}")
