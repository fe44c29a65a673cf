"""The part of a crystal memory that saves and loads its state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import torch
from torch import Tensor

from crystalrl.backends.protocols import UNLABELLED
from crystalrl.memory.base import ReplayMemory
from crystalrl.memory.crystal.anchors import Anchors
from crystalrl.memory.crystal.checks import memory_problems
from crystalrl.memory.crystal.episode_boost import Episodes
from crystalrl.memory.crystal.novelty import Grid
from crystalrl.memory.exclusive import exclusive
from crystalrl.memory.neighbours.features import Features
from crystalrl.memory.neighbours.neighbourhood import Neighbours
from crystalrl.memory.storage.checks import Named, Problems
from crystalrl.memory.storage.external import ExternalArena
from crystalrl.memory.storage.header import CheckpointError
from crystalrl.memory.storage.spec import Shape, StorageSpec, storage_from_json
from crystalrl.params import CrystalParams


class StoredCrystals(ReplayMemory, complete=False):
    """A replay memory whose state has anchors, visits, counters of episodes and neighbour lists as well."""

    params: CrystalParams
    anchors: Anchors
    features: Features
    grid: Grid
    neighbours: Neighbours
    episodes: Episodes
    ended: Tensor
    steps: Tensor
    consolidations: Tensor
    _loads = 0
    """How often other contents have been loaded: a plan from before a load is void."""

    @classmethod
    def _restore(cls, storage: dict[str, Any], params: dict[str, Any]) -> Self:
        if params["features"]:
            raise CheckpointError(
                "features: wanted those of the saved memory, which no file holds: build it with them and call `load`"
            )
        anchor = {name: tuple(shape) for name, shape in params["anchor"].items()}
        options = {**storage, "params": CrystalParams.from_json(params["crystal"]), "anchor": anchor}
        return cls(**options)

    def packed(self) -> dict[str, Any]:
        """A memory over an external arena, without that arena, as plain values and arrays: for pickle and deepcopy."""
        return {"header": self._header(), "tensors": {name: t.numpy() for name, t in self.state_dict().items()}}

    @classmethod
    def unpacked(cls, state: Mapping[str, Any], arena: ExternalArena) -> Self:
        """The memory of `packed`, over an arena that gives the same experiences."""
        header, tensors = state["header"], {name: torch.from_numpy(value) for name, value in state["tensors"].items()}
        options: dict[str, Any] = {**storage_from_json(header["structure"]), "seed": tensors["streams.seeds"].tolist()}
        memory = cls._restore({**options, "arena": arena}, header["params"])
        memory.load_state_dict(tensors)
        return memory

    def _header(self) -> dict[str, Any]:
        anchor = {name: list(tensor.shape[2:]) for name, tensor in self.anchors.items()}
        own = {"crystal": self.params.to_json(), "anchor": anchor, "features": self.features.given is not None}
        return {**super()._header(), "params": own}

    @exclusive
    def state_dict(self) -> dict[str, Tensor]:
        return {**super().state_dict(), **self.neighbours.state(self.ledger.used), **self.episodes.state()}

    @exclusive
    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        lists = {name: tensor for name, tensor in state.items() if Neighbours.owns(name)}
        graph = self.neighbours.checked(lists, self.arena)
        rest = {name: tensor for name, tensor in state.items() if name not in lists}
        super().load_state_dict(self._completed(self.episodes.completed(rest)))
        self.neighbours.fill(graph, lists)
        self.episodes.load(state, self.arena)
        self._loads += 1

    def _completed(self, state: dict[str, Tensor]) -> dict[str, Tensor]:
        """A state from before `practice`: all experiences are held, and the unit of the policy's anchor is 1."""
        if self.params.practice and "ledger.slot.c" in state:
            state.setdefault("ledger.slot.held", state["ledger.slot.c"])
        for name, tensor in self.anchors.tensors().items():
            state.setdefault(f"crystal.{name}", torch.ones_like(tensor, device="cpu"))
        return state

    @classmethod
    def _used(cls, spec: StorageSpec, state: Named) -> int:
        occupied = (state["ledger.slot.label"] != UNLABELLED).nonzero()
        return int(occupied[:, 1].max()) + 1 if len(occupied) else 0

    @classmethod
    def _sizes(cls, spec: StorageSpec, params: Mapping[str, Any], state: Named) -> dict[str, Shape]:
        sizes = {**super()._sizes(spec, params, state), "ledger.queue": (spec.lanes or 1, spec.capacity)}
        used = sizes["memory.slot.rows"][:2]
        return sizes | {f"crystal.slot.anchor.{name}": (*used, *shape) for name, shape in params["anchor"].items()}

    def _problems(self, state: Named) -> Problems:
        clock = state["crystal.turns" if self.params.clock == "calls" else "memory.time"]
        yield from super()._problems(state)
        yield from memory_problems(state, clock, self.spec.envs)

    def _tensors(self) -> dict[str, Tensor]:
        own = {"ended": self.ended, "steps": self.steps, "turns": self.consolidations} | self.episodes.tensors()
        own |= (
            self.anchors.tensors()
            | self.grid.tensors()
            | {f"slot.anchor.{name}": anchor for name, anchor in self.anchors.items()}
        )
        return {**super()._tensors(), **{f"crystal.{name}": tensor for name, tensor in own.items()}}
