"""The vectors and codes by which experiences are compared."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor

from crystalrl.memory.neighbours.view import View
from crystalrl.memory.storage.external import AnyArena
from crystalrl.memory.storage.frame_arena import ROLES
from crystalrl.memory.storage.spec import StorageSpec
from crystalrl.params import CrystalParams
from crystalrl.random import Stream, Streams, element_bits, normal_from_bits
from crystalrl.types import Observation

FeatureMap = Callable[[Observation], Tensor]
"""Observations [L, N, …] → vectors [L, N, D]."""


class Features:
    """Vectors of states: observations flattened and, if they are large, projected onto random directions; or the
    vectors that a user's own function gives."""

    max_dimensions: ClassVar[int] = 64
    """Observations with more dimensions than this are projected."""
    projected: ClassVar[int] = 32
    """Dimensions of a projection."""
    part_bytes: ClassVar[int] = 1 << 28
    """Bytes of the observations, as float32, that are held at once."""

    def __init__(
        self, spec: StorageSpec, streams: Streams, given: FeatureMap | None = None, params: CrystalParams | None = None
    ) -> None:
        self.spec, self.streams, self.given = spec, streams, given
        self.limit = self.max_dimensions if params is None or params.project else math.inf
        """Dimensions above which observations are projected."""
        self.contexts = params is None or params.novelty != "state_action"
        """Whether visits in different contexts are counted apart."""

    @property
    def plain(self) -> bool:
        """Whether states are compared as they are stored: not mapped, not projected, not in half precision (which the
        loops on CPU cannot read), and not as frames."""
        shape, half = self.spec.obs, self.spec.obs_dtype == torch.float16
        small = isinstance(shape, tuple) and math.prod(shape) <= self.limit
        return self.given is None and small and not half and self.spec.stack is None

    @property
    def discrete(self) -> bool:
        """Whether actions are codes, not vectors."""
        return isinstance(self.spec.action, int)

    def stored(self, arena: AnyArena, slots: Tensor) -> tuple[Tensor, Tensor]:
        """State vectors float32[L, M, D] of the observations and of the next ones in slots int64[L, M]. Images are read
        and projected part by part."""
        found: list[list[Tensor]] = [[], []]
        for some in slots.split(self.at_once(slots), dim=1):
            fields = arena.unpack(arena.read(some))
            for role, vectors in zip(ROLES, found, strict=True):
                vectors.append(self.states(fields[role]))
        return torch.cat(found[0], 1), torch.cat(found[1], 1)

    def seen(self, view: View) -> tuple[Tensor, Tensor]:
        """`stored` of all slots in view."""
        if self.at_once(view.phase) >= view.slots:
            return self.states(view.fields["obs"]), self.states(view.fields["next_obs"])
        return self.stored(view.arena, torch.arange(view.slots, device=view.phase.device).expand(len(view.phase), -1))

    def at_once(self, slots: Tensor) -> int:
        """Slots [L, M] that are read at once: as many as fit into `part_bytes`."""
        size = 4 * sum(map(math.prod, self.spec.obs_shapes.values()))
        return max(self.part_bytes // (size * len(slots)), 1)

    def states(self, obs: Observation) -> Tensor:
        """State vectors float32[L, N, D] of observations [L, N, …]."""
        if self.given is None:
            return self._project(flatten(obs))
        vectors = self.given(obs)
        if vectors.dim() != 3:
            raise ValueError(f"features: wanted vectors [lanes, N, D], got shape {tuple(vectors.shape)}")
        return vectors.to(torch.float32)

    def grid_vectors(self, fields: Mapping[str, Any], state: Tensor | None = None) -> Tensor:
        """float32[L, N, D]: state (None: that of fields) and box action."""
        state = self.states(fields["obs"]) if state is None else state
        return state if self.discrete else torch.cat([state, fields["action"].flatten(2).to(torch.float32)], -1)

    def grid_codes(self, fields: Mapping[str, Any]) -> Tensor:
        """int64[L, N]: discrete action, and context if it counts."""
        code = fields["action"] if self.discrete else torch.zeros_like(fields["reward"], dtype=torch.int64)
        return (
            code if fields["context"] is None or not self.contexts else code + (fields["context"].to(torch.int64) << 20)
        )

    def _project(self, vectors: Tensor) -> Tensor:
        """float32[L, N, 32] along fixed random directions of each lane, which preserve distances on average; small
        vectors stay as they are."""
        size = vectors.shape[-1]
        if size <= self.limit:
            return vectors
        element = torch.arange(size * self.projected, device=vectors.device)
        key = self.streams.keys[Stream.NEIGHBOURS].to(vectors.device)[:, None]
        normal = normal_from_bits(element_bits(key, 2 * element), element_bits(key, 2 * element + 1))
        directions = normal.view(-1, size, self.projected).to(torch.float32) / self.projected**0.5
        return torch.bmm(vectors, directions)


def flatten(obs: Observation) -> Tensor:
    """float32[L, N, D] of an observation [L, N, …] or a dict of them."""
    parts = [obs[name] for name in sorted(obs)] if isinstance(obs, Mapping) else [obs]
    return torch.cat([part.reshape(*part.shape[:2], -1).to(torch.float32) for part in parts], dim=-1)
