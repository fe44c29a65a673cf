"""L2 regularisation towards the parameters after the last task: every parameter counts the same.

The simplest penalty, as in Continual World (Wołczyk et al. 2021): after k tasks the importance of every parameter is k.
Where every task has a head, heads are left out: a head that has not been trained must be free.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from crystalrl.agents.base import Agent
from crystalrl.lanes import PerLane
from crystalrl.methods.quadratic import Quadratic, QuadraticParams
from crystalrl.types import Memory


@dataclass(frozen=True)
class L2Params(QuadraticParams):
    """Settings of L2 regularisation; `strength` may be one number per lane."""

    strength: PerLane = 1e5
    """Factor of k·Σ (θ − θ_k)² after k tasks; 0 switches it off. 10⁵: Wołczyk et al. 2021, for Continual World."""


class L2(Quadratic):
    """The importance of every parameter is the number of completed tasks."""

    def measured(self, agent: Agent, memory: Memory) -> dict[str, Tensor]:
        """One for every parameter that tasks share."""
        found = {name: torch.ones_like(importance) for name, importance in self.importance.items()}
        for name, ones in found.items():
            network = agent.parts[name].network
            if network.heads > 1:
                for layer in network.split(ones)[network.first_head : len(network.layers)]:
                    for tensor in layer:
                        tensor.zero_()
        return found
