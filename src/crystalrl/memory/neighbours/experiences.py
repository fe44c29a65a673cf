"""Experiences as the interference rules compare them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from crystalrl.dynamics import LIQUID
from crystalrl.memory.neighbours.exact import action_distances, distances


@dataclass(frozen=True, kw_only=True, eq=False)
class Outcomes:
    """The fields that a rule needs once distances are known; every field [L, N]."""

    reward: Tensor
    birth: Tensor
    """int64: order of arrival."""
    phase: Tensor
    """uint8: phase."""
    unevaluated: Tensor
    """bool: arrived since the last consolidation."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Experiences(Outcomes):
    """The fields that a rule needs to compute distances itself; every field [L, N, …]."""

    state: Tensor
    """float32: state vectors."""
    action: Tensor
    """float32: action vectors; a discrete action is a single code and compared for equality."""
    context: Tensor | None
    """int64: context id; None if experiences carry no context."""
    discrete: bool

    @property
    def occupied(self) -> Tensor:
        return self.phase > 0

    @property
    def liquid(self) -> Tensor:
        return self.phase == LIQUID

    @cached_property
    def arrival(self) -> Tensor:
        """float32[L, N]: arrival rank within the lane; exact in float32."""
        return self.birth.argsort(-1).argsort(-1).to(torch.float32)

    def sorted(self, order: Tensor) -> Experiences:
        """The same experiences with the slots in the order int64[L, N]."""
        lane = torch.arange(len(order), device=order.device)[:, None]
        fields = ("reward", "birth", "phase", "unevaluated", "state", "action")
        values = {name: getattr(self, name)[lane, order] for name in fields}
        context = None if self.context is None else self.context[lane, order]
        return Experiences(**values, context=context, discrete=self.discrete)

    def others(self, rows: slice) -> Tensor:
        """bool[L, R, N]: occupied and not the row itself."""
        number = torch.arange(self.phase.shape[1], device=self.phase.device)
        return self.occupied[:, None, :] & ~(number[rows, None] == number)

    def rewards_differ(self, rows: slice, delta_r: Tensor) -> Tensor:
        """bool[L, R, N]: whether rewards differ by more than δ_r."""
        return (self.reward[:, rows, None] - self.reward[:, None, :]).abs() > delta_r

    def action_distance(self, rows: slice) -> Tensor:
        """float32[L, R, N]: distance of actions; for discrete actions that of their one-hot codes."""
        return action_distances(self.action[:, rows], self.action, self.discrete)

    def summed_distance(self, rows: slice) -> Tensor:
        """float32[L, R, N]: distance in state plus distance in action, as the paper defines it."""
        return distances(self.state[:, rows], self.state) + self.action_distance(rows)

    def distance(self, rows: slice) -> Tensor:
        """float32[L, R, N]: distance in state or in a box action, whichever is larger; infinite between different
        discrete actions or contexts, to empty slots and to the row itself."""
        state, action = distances(self.state[:, rows], self.state), self.action_distance(rows)
        excluded = ~self.others(rows)
        if self.discrete:
            excluded |= action > 0
        else:
            state = torch.maximum(state, action)
        if self.context is not None:
            excluded |= self.context[:, rows, None] != self.context[:, None, :]
        return state.masked_fill(excluded, torch.inf)
