"""Consolidation while learning continues: planned in a thread, applied a fixed number of steps later."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Protocol

import torch

from crystalrl.memory.crystal.consolidate import plan
from crystalrl.memory.crystal.evaluate import evaluate_all
from crystalrl.memory.crystal.ledger import CrystalLedger
from crystalrl.memory.crystal.report import Consolidation
from crystalrl.memory.crystal.snapshot import Plan, Snapshot
from crystalrl.memory.neighbours.neighbourhood import Neighbours
from crystalrl.memory.storage.arena import Arena
from crystalrl.memory.storage.external import AnyArena
from crystalrl.memory.storage.spec import StorageSpec
from crystalrl.types import Evaluate


class Consolidates(Protocol):
    """The part of `CrystalMemory` that `Background` uses."""

    spec: StorageSpec
    device: torch.device
    arena: AnyArena
    ledger: CrystalLedger
    neighbours: Neighbours

    @property
    def due(self) -> bool: ...
    def snapshot(self) -> Snapshot: ...
    def apply(self, plan: Plan) -> Consolidation: ...


class Background:
    """Plans a consolidation when it is due and applies it `lag` steps later. Learning continues in between.

    `critic()` is called at the start of each plan and returns an `evaluate` that nothing else changes, such as
    `copy.deepcopy(agent).evaluate`. The result depends on the step at which planning began and on `lag`, not on how
    long planning took: if the plan is not ready by then, `step` waits for it. The payload is stored twice, so that
    experiences stored meanwhile do not disturb the plan. A file saved while a plan is being computed holds no neighbour
    lists: they are rebuilt after loading.

        background = Background(memory, critic=lambda: copy.deepcopy(agent).evaluate, lag=1000)
        for step in …:
            memory.add(…)
            report = background.step()      # a report when a plan was applied, else None
        background.finish()
    """

    def __init__(self, memory: Consolidates, critic: Callable[[], Evaluate], lag: int) -> None:
        if lag < 1:
            raise ValueError(f"lag: wanted a whole number of steps ≥ 1, got {lag}")
        if memory.device.type != "cpu":
            raise ValueError(f"memory: wanted one on CPU, where planning takes long, got one on {memory.device}")
        if not isinstance(memory.arena, Arena):
            raise ValueError("memory: wanted one that stores its experiences itself, got one with an external arena")
        self.memory, self.critic, self.lag = memory, critic, lag
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="consolidation")
        self._plan: Future[Plan] | None = None
        self._waited = 0
        self._source = memory.arena
        self._arena = type(memory.arena)(memory.spec, memory.arena.layout)
        self._generation = torch.full_like(memory.ledger.generation, -1)
        self._neighbours = memory.neighbours

    def step(self) -> Consolidation | None:
        """Call this once after each step of the environments."""
        if self._plan is not None:
            self._waited += 1
            return self.finish() if self._waited >= self.lag else None
        if self.memory.due:
            self._begin()
        return None

    def finish(self) -> Consolidation | None:
        """Apply the plan that is being computed, if there is one."""
        if self._plan is None:
            return None
        planned, self._plan = self._plan, None
        ready = planned.result()
        self.memory.neighbours.attach(self._neighbours)
        return self.memory.apply(ready)

    def _begin(self) -> None:
        snapshot = replace(self.memory.snapshot(), arena=self._copied_payload())
        self._neighbours = self.memory.neighbours.detached()
        evaluate = self.critic()
        self._waited = 0
        self._plan = self._thread.submit(_planned, snapshot, evaluate, self._neighbours)

    def _copied_payload(self) -> Arena:
        """A copy of the memory's arena; only rows written since the last copy are copied."""
        generation, source = self.memory.ledger.generation, self._source
        lane, slot = (generation != self._generation).nonzero(as_tuple=True)
        at = source.position(lane, slot)
        self._arena.copy_rows(source, at)
        self._generation.copy_(generation)
        return self._arena


def _planned(snapshot: Snapshot, evaluate: Evaluate, neighbours: Neighbours) -> Plan:
    return plan(snapshot, evaluate_all(snapshot, evaluate), neighbours.refresh(snapshot))
