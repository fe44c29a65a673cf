"""What an action does in the unit square: five moves, permuted, or vectors, mirrored and turned.

Each stage has its own mapping, so a policy that is right in one stage is wrong in another.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from crystalrl.lanes import lanewise

MOVES = ((0.0, 1.0), (0.0, -1.0), (1.0, 0.0), (-1.0, 0.0), (0.0, 0.0))
MAPPING_DRAWS = len(MOVES)
"""Uniform numbers that define the mapping of a stage."""


class Permuted:
    """Five discrete actions; `permutation` int64[L, S, 5] says which move each of them is in a stage."""

    action = len(MOVES)

    def __init__(self, drawn: Tensor) -> None:
        """Draw the permutations from uniform numbers [L, S, 5]."""
        self.permutation = drawn.argsort(-1)
        self.table = torch.tensor(MOVES, device=drawn.device)

    def __call__(self, stage: Tensor, action: Tensor) -> Tensor:
        """Movements [L, E, 2] of actions int64[L, E] in stages int64[L, E]."""
        return self.table[of_stage(self.permutation, stage).gather(-1, action[..., None]).squeeze(-1)]


class Turned:
    """Vectors in [−1, 1]². In every stage the second component is multiplied by 1 or −1, then the vector is turned by
    an angle; `mapping` [L, S, 3] holds cosine, sine and factor.
    """

    action = (2,)

    def __init__(self, drawn: Tensor) -> None:
        """Draw angles and factors from uniform numbers [L, S, 5], of which the first two are used."""
        angle = 2 * math.pi * drawn[..., 0]
        factor = torch.where(drawn[..., 1] < 0.5, -1.0, 1.0).to(drawn.dtype)
        self.mapping = torch.stack([lanewise(torch.cos, angle), lanewise(torch.sin, angle), factor], -1).float()

    def __call__(self, stage: Tensor, action: Tensor) -> Tensor:
        """Movements [L, E, 2] of actions [L, E, 2] in stages int64[L, E]."""
        cosine, sine, factor = of_stage(self.mapping, stage).unbind(-1)
        return turned(torch.stack([action[..., 0], factor * action[..., 1]], -1), cosine, sine)


def turned(vector: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """Vectors [L, E, 2], turned anticlockwise by angles with these cosines and sines [L, E]."""
    x, y = vector.unbind(-1)
    return torch.stack([cosine * x - sine * y, sine * x + cosine * y], -1)


def of_stage(table: Tensor, stage: Tensor) -> Tensor:
    """Rows [L, E, W] of a table [L, S, W] for stages int64[L, E]."""
    return table.gather(1, stage[..., None].expand(-1, -1, table.shape[-1]))
