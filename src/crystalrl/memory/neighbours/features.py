"""What experiences are compared by: vectors of states, cells of states and actions."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from crystalrl.memory.neighbours import exact as neighbours
from crystalrl.memory.storage.spec import StorageSpec
from crystalrl.random import Streams
from crystalrl.types import Observation

Features = Callable[[Observation], Tensor]


class Compared:
    """The part of a memory that says how its experiences are compared."""

    spec: StorageSpec
    streams: Streams
    _features: Features | None

    @property
    def plain_states(self) -> bool:
        """Whether states are compared as they are stored: neither projected nor mapped to features, nor in half
        precision, which loops on CPU do not know.
        """
        shape, half = self.spec.obs, self.spec.obs_dtype == torch.float16
        small = isinstance(shape, tuple) and math.prod(shape) <= neighbours.MOST_DIMENSIONS
        return self._features is None and small and not half

    def features(self, obs: Observation) -> Tensor:
        """float32[L, N, D] by which states are compared."""
        if self._features is None:
            return neighbours.project(neighbours.flatten(obs), self.streams)
        given = self._features(obs)
        if given.dim() != 3:
            raise ValueError(f"features: wanted vectors [lanes, N, D], got shape {tuple(given.shape)}")
        return given.to(torch.float32)

    def grid_vectors(self, fields: Mapping[str, Any]) -> Tensor:
        """float32[L, N, D]: state and box action."""
        state = self.features(fields["obs"])
        return state if self.discrete else torch.cat([state, fields["action"].flatten(2).to(torch.float32)], -1)

    def grid_codes(self, fields: Mapping[str, Any]) -> Tensor:
        """int64[L, N]: context and discrete action."""
        code = fields["action"] if self.discrete else torch.zeros_like(fields["reward"], dtype=torch.int64)
        return code if fields["context"] is None else code + (fields["context"].to(torch.int64) << 20)

    @property
    def discrete(self) -> bool:
        """Whether actions are codes, not vectors."""
        return isinstance(self.spec.action, int)
