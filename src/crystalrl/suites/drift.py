"""`drift-N`: navigation in the unit square in which the task changes slowly and all the time.

The goal moves on a smooth curve, and the four directions of the actions turn, both as functions of the position p on a
path. p grows by 1 in each of the N stages, by the same small amount in every step, also within an episode and from one
stage to the next. There are no boundaries: no reset between stages, no task id, and the exploration of the agent does
not start again. Methods that need boundaries are refused.

The goal's coordinates are .5 + .4·sin 2π(f·p + φ), and the directions are turned by the angle ±2π(f·p + φ). The three
frequencies f are between .15 and .35 per stage, so that consecutive stages differ by a turn of 54° to 126°. Frequencies
and starts φ are drawn from the lane's seed and do not depend on N.

The observation is the agent's position and a continuous code of p: N + 1 numbers, the j-th is ½ + ½·cos π(p − j) for
|p − j| < 1 and otherwise 0. They sum to 1, so the code shows which task holds, and a learner can retain earlier ones.

A stage is scored where it ends: the score of stage k is the share of test episodes that reach the goal with p fixed at
k, k = 1 … N. So after stage k the learner is tested where it is now, and at the ends of the k − 1 stages before.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from crystalrl.lanes import lanewise
from crystalrl.random import Stream, Streams
from crystalrl.suites.moves import MOVES, turned
from crystalrl.suites.square import MARGIN, SquareEvaluator, SquareName, SquareWorld

SLOW, FAST = 0.15, 0.35
"""Range of the frequencies, in cycles per stage."""
GOAL_SPEED = math.sqrt(2) * (0.5 - MARGIN) * 2 * math.pi * FAST
"""Upper bound on how far a goal moves in a stage."""
TURN_SPEED = 2 * math.pi * FAST
"""Upper bound on how far the directions turn in a stage, in radians."""
CODE_SPEED = math.pi / 2
"""Upper bound on how far a number of the code changes in a stage."""


class Drift:
    """The paths of L lanes: frequency and start float64[L, 3] of the goal's two coordinates and of the turn."""

    capturable = True
    stack = None
    goal_space = None
    obs_dtype = torch.float32
    stage_dtype = torch.float64
    action = len(MOVES)
    context = False

    def __init__(self, name: str, seeds: Sequence[int], device: torch.device | str, steps: int) -> None:
        """`steps`: environment steps per stage and lane, summed over its environments."""
        self.name, self.seeds, self.device, self.steps = (
            SquareName.parse(name),
            list(seeds),
            torch.device(device),
            steps,
        )
        if self.name.family != "drift":
            raise ValueError(f"suite: wanted drift-N, got {name!r}")
        self.tasks, self.obs = self.name.tasks, (2 + self.name.count + 1,)
        number = torch.arange(7, device=self.device).expand(len(self.seeds), -1)
        drawn = Streams(self.seeds, self.device).at(Stream.ENVIRONMENT, number)
        self.frequency, self.start = SLOW + (FAST - SLOW) * drawn[:, :3], drawn[:, 3:6]
        self.frequency[:, 2] *= torch.where(drawn[:, 6] < 0.5, -1.0, 1.0)
        self.table = torch.tensor(MOVES, device=self.device)
        self.places = torch.arange(self.name.count + 1, dtype=torch.float64, device=self.device)

    def world(self, envs: int) -> SquareWorld:
        """Environments for learning, which move along the path."""
        return SquareWorld(self, envs, Stream.ENVIRONMENT, pace=1 / (self.steps // envs))

    def evaluator(self, episodes: int) -> SquareEvaluator:
        """Test episodes, which stay where a stage ends."""
        return SquareEvaluator(self, episodes, ahead=1)

    def goals(self, stage: Tensor) -> Tensor:
        """Positions [L, E, 2] of the goals at p = stage float64[L, E]."""
        return (0.5 + (0.5 - MARGIN) * lanewise(torch.sin, self._angles(stage)[..., :2])).to(torch.float32)

    def moves(self, stage: Tensor, action: Tensor) -> Tensor:
        """Movements [L, E, 2] that actions int64[L, E] cause, in units of a stride."""
        angle = self._angles(stage)[..., 2]
        cosine, sine = (lanewise(part, angle).to(torch.float32) for part in (torch.cos, torch.sin))
        return turned(self.table[action], cosine, sine)

    def signs(self, stage: Tensor) -> Tensor:
        """The code of p, [L, E, N + 1]."""
        distance = (stage[..., None] - self.places).clamp(-1, 1)
        return (0.5 + 0.5 * lanewise(torch.cos, math.pi * distance)).to(torch.float32)

    def ids_of(self, stage: Tensor) -> None:
        """There are no task ids."""

    def _angles(self, stage: Tensor) -> Tensor:
        """2π(f·p + φ), float64[L, E, 3]."""
        return 2 * math.pi * (self.frequency[:, None] * stage[..., None] + self.start[:, None])
