"""The return of an episode raises the utility of its experiences (Algorithm 3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from crystalrl.types import ArrayLike

if TYPE_CHECKING:
    from crystalrl.memory.crystal.memory import CrystalMemory


def checked(memory: CrystalMemory, episode_return: ArrayLike) -> Tensor:
    """float32[L, E]."""
    spec = memory.spec
    value = torch.as_tensor(episode_return, dtype=torch.float32, device=memory.device)
    wanted = (memory.lanes, spec.envs) if spec.lanes is not None else (spec.envs,)
    if (value.dim() and tuple(value.shape) != wanted) or not bool(torch.isfinite(value).all()):
        raise ValueError(f"episode_return: wanted finite numbers of shape {wanted}, got {episode_return!r}")
    return value.expand(wanted).reshape(memory.lanes, spec.envs)


def boost(memory: CrystalMemory, mask: Tensor, value: Tensor) -> None:
    """Of the environments bool[L, E] whose episode ended with the returns float32[L, E]: over the largest return there
    could be, R_max/(1 − γ), held in [0, 1].
    """
    ledger, gamma = memory.ledger, memory.spec.gamma
    reward = memory.arena.unpack(memory.arena.rows)["reward"].abs() * (ledger.phase > 0)
    largest = reward.amax(-1, keepdim=True).clamp_min(1e-12) / max(1 - gamma, 1e-12)
    share = (value / largest).clamp(0, 1)
    for env in range(memory.spec.envs):
        mine = mask[:, env : env + 1] & (ledger.phase > 0) & (ledger.birth >= memory.started[:, env : env + 1])
        if memory.spec.envs > 1:
            mine &= ledger.env == env
        ledger.boost.copy_(torch.where(mine, share[:, env : env + 1], ledger.boost))
