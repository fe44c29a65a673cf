"""The return of an episode raises the utility of its experiences (Algorithm 3)."""

from __future__ import annotations

import torch
from torch import Tensor

from crystalrl.memory.crystal.ledger import CrystalLedger


def boost(ledger: CrystalLedger, reward: Tensor, gamma: float, ended: Tensor, returns: Tensor, started: Tensor) -> None:
    """Set the boost of the experiences of the episodes that ended.

    reward float32[L, N]: stored rewards; ended bool[L, E]; returns float32[L, E]; started int64[L, E]: number of
    each episode's first experience. The boost is the return over the largest possible one, R_max/(1 − γ), in [0, 1].
    """
    size = reward.abs() * (ledger.phase > 0)
    largest = size.amax(-1, keepdim=True).clamp_min(1e-12) / max(1 - gamma, 1e-12)
    share = (returns / largest).clamp(0, 1)
    for env in range(ended.shape[1]):
        mine = ended[:, env : env + 1] & (ledger.phase > 0) & (ledger.birth >= started[:, env : env + 1])
        if ended.shape[1] > 1:
            mine &= ledger.env == env
        ledger.boost.copy_(torch.where(mine, share[:, env : env + 1], ledger.boost))
