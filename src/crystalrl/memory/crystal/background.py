"""Consolidation beside learning: planned in a thread, applied a fixed number of steps later."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import torch

from crystalrl.memory.crystal.memory import CrystalMemory
from crystalrl.memory.crystal.report import Consolidation
from crystalrl.memory.crystal.snapshot import Plan
from crystalrl.memory.storage.arena import Arena
from crystalrl.types import Evaluate


class Background:
    """Plans a consolidation when it is due and applies it `lag` steps later; learning goes on in between.

    `critic()` is called at the start of each plan and gives an `evaluate` that nothing else changes, such as
    `copy.deepcopy(agent).evaluate`. What is applied depends on the step at which planning began and on `lag`, not on
    how long it took: if the plan is not ready by then, `step` waits for it. The payload is held twice, so that what is
    stored meanwhile does not disturb the plan.

        background = Background(memory, critic=lambda: copy.deepcopy(agent).evaluate, lag=1000)
        for step in …:
            memory.add(…)
            report = background.step()      # a report when a plan was applied, else None
        background.finish()
    """

    def __init__(self, memory: CrystalMemory, critic: Callable[[], Evaluate], lag: int) -> None:
        if lag < 1:
            raise ValueError(f"lag: wanted a whole number of steps ≥ 1, got {lag}")
        if memory.device.type != "cpu":
            raise ValueError(f"memory: wanted one on CPU, whose plans take long, got one on {memory.device}")
        self.memory, self.critic, self.lag = memory, critic, lag
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="consolidation")
        self._plan: Future[Plan] | None = None
        self._waited = 0
        self._frozen: Any = object.__new__(type(memory))
        self._arena = Arena(memory.spec, memory.arena.layout)
        self._generation = torch.full_like(memory.ledger.generation, -1)

    def step(self) -> Consolidation | None:
        """To be called once after each step of the environments."""
        if self._plan is not None:
            self._waited += 1
            return self.finish() if self._waited >= self.lag else None
        if self.memory.due:
            self._begin()
        return None

    def finish(self) -> Consolidation | None:
        """Apply the plan that is under way now, if there is one."""
        if self._plan is None:
            return None
        plan, self._plan = self._plan, None
        ready = plan.result()
        self.memory.vicinity = self._frozen.vicinity
        return self.memory.apply(ready)

    def _begin(self) -> None:
        memory, draft = self.memory, self.memory.draft()
        generation = memory.ledger.generation
        lane, slot = (generation != self._generation).nonzero(as_tuple=True)
        at = memory.arena.position(lane, slot)
        self._arena.flat_rows[at] = memory.arena.flat_rows[at]
        self._generation.copy_(generation)
        draft.read_from(self._arena)
        self._frozen.__dict__.update(memory.__dict__, arena=self._arena, ledger=draft)
        memory.vicinity = None  # the plan works on the lists: what is saved meanwhile is saved without them
        evaluate = self.critic()
        self._waited = 0
        self._plan = self._thread.submit(self._frozen.plan, evaluate, draft)
