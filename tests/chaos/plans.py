"""The crystal machine of tests/memory with plans: applied at once, late, next to other operations, or refused."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np
import torch
from hypothesis import strategies as st
from hypothesis.stateful import rule

from crystalrl import CrystalMemory
from crystalrl.memory.crystal.ledger import PINNED
from tests.experience import assert_same_state, stacked
from tests.memory.crystal.machine import Machine, critic

BETWEEN = ("add", "pin", "sample", "update", "clear", "load", "consolidate", "save")


class Planning(Machine):
    """Rules that plan and apply in two steps."""

    @rule(theta=st.floats(-2, 2, width=32))
    def consolidate_in_two_steps(self, theta: float) -> None:
        """A plan that is applied at once is the consolidation."""
        memory = self.memory
        memory.consolidate = lambda evaluate: memory.apply(memory.plan(evaluate))  # type: ignore[method-assign]
        try:
            self.consolidate(theta)
        finally:
            del memory.consolidate

    @rule(theta=st.floats(-2, 2, width=32))
    def only_plan(self, theta: float) -> None:
        """A plan changes nothing: the invariants find what it does."""
        before = self.memory.state_dict()
        self.memory.plan(critic(theta)[0])
        assert_same_state(before, self.memory.state_dict())

    @rule(theta=st.floats(-2, 2, width=32), seed=st.integers(0, 2**32 - 1), count=st.integers(1, 6))
    def apply_late(self, theta: float, seed: int, count: int) -> None:
        """Operations between plan and apply; then back to where the twin is."""
        evaluate, rng, memory = critic(theta)[0], np.random.default_rng(seed), self.memory
        self.save()
        planned = memory.plan(evaluate)
        done = [self.between(str(rng.choice(BETWEEN)), rng, evaluate) for _ in range(count)]
        before, births = memory.state_dict(), held(memory)
        pinned = pinned_births(memory)
        try:
            memory.apply(planned)
        except RuntimeError:
            assert {"load", "consolidate"} & set(done), done
            assert_same_state(before, memory.state_dict())
        else:
            assert not {"load", "consolidate"} & set(done), done
            assert all(mine <= now for mine, now in zip(pinned, held(memory), strict=True))
            assert all(now <= mine for mine, now in zip(births, held(memory), strict=True))
        memory.check()
        self.load(fresh=False)

    def between(self, what: str, rng: np.random.Generator, evaluate: Any) -> str:
        """One operation on the memory alone; the name of what was done."""
        memory = self.memory
        if what == "add":
            steps = [[self.step(rng) for _ in range(self.envs)] for _ in range(self.width)]
            with suppress(RuntimeError):  # pinned experiences may leave no room
                memory.add(stacked(steps, self.lanes))
        elif what in ("pin", "sample", "update") and bool((memory.ledger.count > 0).all()):
            index = memory.sample(2).index
            if what == "pin":
                memory.pin(index)
            elif what == "update":
                memory.update(index, torch.ones(index.shape))
        elif what == "clear":
            memory.clear()
        elif what == "load":
            memory.load(self.file)
        elif what == "consolidate":
            before = memory.consolidations.clone()
            memory.consolidate(evaluate)
            return what if not torch.equal(before, memory.consolidations) else "nothing"
        elif what == "save":
            memory.save(self.file.with_name("other"))
        return what


def held(memory: CrystalMemory) -> list[set[int]]:
    """The numbers of the stored experiences, lane by lane."""
    return [set(memory.experiences(lane=lane)["number"].tolist()) for lane in range(memory.lanes)]


def pinned_births(memory: CrystalMemory) -> list[set[int]]:
    flags, found = memory.ledger.flags, []
    for lane in range(memory.lanes):
        rows = memory.experiences(lane=lane)
        pins = (flags[lane, rows["index"]] & PINNED) > 0
        found.append(set(rows["number"][pins].tolist()))
    return found
