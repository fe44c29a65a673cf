"""Navigation in the unit square as a sequence of tasks: each has its own goal and its own meaning of the actions.

`nav-N`            N tasks with five actions (four directions and none), which each task permutes; the observation is
                   the position and the task id, one-hot.
`reach-N`          the same goals with box actions: a vector in [−1, 1]², which each task turns by its own angle, and
                   mirrors with probability ½.
`…-N-redefined`    then tasks 1 and 2 are redefined: same id, same meaning of the actions, another goal.
`…-N-hidden`       no id: every task has three landmarks, and the observation shows where they are.
`…-N-goals`        the observation ends with the goal, for hindsight experience replay.

Each lane has its own tasks, drawn from its seed. `crystalrl.suites.square` defines a step, the reward and the score.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from crystalrl.random import Stream, Streams
from crystalrl.suites.moves import MAPPING_DRAWS, Permuted, Turned, of_stage
from crystalrl.suites.square import MARGIN, SquareEvaluator, SquareName, SquareWorld, reward_at
from crystalrl.types import GoalSpace

LANDMARKS = 3
DRAWS = 2 + MAPPING_DRAWS + 2 * LANDMARKS
"""Uniform numbers that define a stage: goal, meaning of the actions, landmarks."""
MAPPINGS: dict[str, type[Permuted] | type[Turned]] = {"nav": Permuted, "reach": Turned}


class Nav:
    """The tasks of L lanes: goal [L, S, 2], mapping of the actions, landmarks [L, S, 3·2], ids int32[S]."""

    capturable = True
    stack = None
    obs_dtype = torch.float32
    stage_dtype = torch.int64

    def __init__(self, name: str, seeds: Sequence[int], device: torch.device | str = "cpu") -> None:
        self.name, self.seeds, self.device = SquareName.parse(name), list(seeds), torch.device(device)
        self.tasks = self.name.tasks
        self.context = self.name.kind != "hidden"
        self.shows_goal = self.name.kind == "goals"
        self.obs = (2 + (self.name.count if self.context else 2 * LANDMARKS) + 2 * self.shows_goal,)
        self.goal_space = GoalSpace(slice(0, 2), slice(-2, None), _reward) if self.shows_goal else None
        number = torch.arange(len(self.tasks) * DRAWS, device=self.device).expand(len(self.seeds), -1)
        drawn = Streams(self.seeds, self.device).at(Stream.ENVIRONMENT, number).unflatten(1, (-1, DRAWS))
        self.goal = (MARGIN + (1 - 2 * MARGIN) * drawn[..., :2]).to(torch.float32)
        owner = torch.tensor(self.tasks, device=self.device)  # the stage that defined the actions of each id
        self.mapping = MAPPINGS[self.name.family](drawn[:, owner, 2 : 2 + MAPPING_DRAWS])
        self.action = self.mapping.action
        self.landmark = drawn[..., 2 + MAPPING_DRAWS :].to(torch.float32)
        self.ids = owner.to(torch.int32)
        self.sign = torch.eye(self.name.count, device=self.device)[owner]
        """float32[S, N]: the one-hot id of each stage."""

    def world(self, envs: int) -> SquareWorld:
        """Environments for learning."""
        return SquareWorld(self, envs, Stream.ENVIRONMENT)

    def evaluator(self, episodes: int) -> SquareEvaluator:
        """Test episodes."""
        return SquareEvaluator(self, episodes)

    def goals(self, stage: Tensor) -> Tensor:
        """Positions [L, E, 2] of the goals."""
        return of_stage(self.goal, stage)

    def moves(self, stage: Tensor, action: Tensor) -> Tensor:
        """Movements [L, E, 2] that the actions cause, in units of a stride."""
        return self.mapping(stage, action)

    def signs(self, stage: Tensor) -> Tensor:
        """One-hot ids, or landmarks in [−2, 2], then the goal, if it is shown, [L, E, D − 2]."""
        signs = self.sign[stage] if self.context else 4 * of_stage(self.landmark, stage) - 2
        return torch.cat([signs, 4 * self.goals(stage) - 2], dim=-1) if self.shows_goal else signs

    def ids_of(self, stage: Tensor) -> Tensor | None:
        """Task ids int32[L, E]; None if they are hidden."""
        return self.ids[stage] if self.context else None


def _reward(achieved: Tensor, desired: Tensor, context: Tensor | None) -> tuple[Tensor, Tensor]:
    """Rewards and endings for positions and goals as observations show them, in [−2, 2]²."""
    return reward_at((achieved + 2) / 4, (desired + 2) / 4)
