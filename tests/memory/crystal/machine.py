"""A crystal memory and its twin under the same random operations; subclasses say which memory."""

from __future__ import annotations

import copy
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule

from crystalrl import Batch, CrystalMemory, CrystalParams, Evaluation, load_memory
from tests.experience import assert_close, random_step, stacked
from tests.memory.crystal.rounding import rounded_by
from tests.memory.twin_machine import TwinMachine
from tests.reference import Step
from tests.reference_crystal.item import Item
from tests.reference_crystal.twin import CrystalTwin

SEED = 3
PHASES = ("liquid", "glass", "crystal")
COLUMNS = ("c", "held", "utility", "error", "interference", "streak", "birth")
"""Columns of a ledger that are compared."""
PER_LANE = {"alpha": (0.2, 0.5, 0.9), "sigma": (0.0, 0.1, 0.3), "beta": (0.05, 0.02, 0.1)}


def critic(theta: float) -> Any:
    """|δ| and outputs that change with theta; the same arithmetic for a batch and for one experience."""
    shift = np.float32(theta)

    def error(obs: Any, reward: Any) -> Any:
        return abs(reward - shift * obs[..., 0]) * (reward > -1)

    def evaluate(batch: Batch) -> Evaluation:
        obs = batch.obs
        assert isinstance(obs, torch.Tensor)
        outputs = {"q": obs[..., :2] * float(shift), "policy": obs[..., 2] + float(shift)}
        return Evaluation(error(obs, batch.reward), outputs, obs[..., 1])

    def judge(item: Item) -> tuple[float, dict[str, Any], float]:
        obs = item.data.obs
        return float(error(obs, item.data.reward)), {"q": obs[:2] * shift, "policy": obs[2] + shift}, float(obs[1])

    return evaluate, judge


class Machine(TwinMachine):
    """Subclasses say which parameters, lanes, environments and steps."""

    params: CrystalParams
    per_lane: bool

    def __init__(self) -> None:
        super().__init__()
        self.steps = 0

    @initialize(extra=st.integers(0, 16), context=st.booleans())
    def build(self, extra: int, context: bool) -> None:
        self.context = context
        params = replace(self.params, **PER_LANE) if self.per_lane else self.params
        capacity = 3 * self.envs * self.n_step + 6 + extra
        anchor: dict[str, tuple[int, ...]] = {"q": (2,), "policy": ()} if params.uses_anchors else {}
        self.memory = CrystalMemory(
            capacity, obs=(3,), action=2, params=params, anchor=anchor, lanes=self.lanes,
            envs=self.envs, n_step=self.n_step, gamma=0.9, context=context, seed=SEED, device=self.device,
        )  # fmt: skip
        self.twins = []
        for lane in range(self.width):
            mine = {name: values[lane] for name, values in PER_LANE.items()} if self.per_lane else {}
            one = replace(params, **mine)
            kappa = dict.fromkeys(anchor, one.kappa)
            self.twins.append(CrystalTwin(capacity, SEED + lane, one, kappa, self.envs, self.n_step, 0.9))

    @rule(seed=st.integers(0, 2**32 - 1), count=st.integers(1, 10), masked=st.booleans(), data=st.data())
    def add(self, seed: int, count: int, masked: bool, data: st.DataObject) -> None:
        rng = np.random.default_rng(seed)
        for _ in range(count):
            steps = [[self.step(rng) for _ in range(self.envs)] for _ in range(self.width)]
            valid = self.rows(data, st.booleans()) if masked else [[True] * self.envs] * self.width
            self.add_one(steps, valid, masked, None)

    @rule(seed=st.integers(0, 2**32 - 1), data=st.data())
    def add_crystallized(self, seed: int, data: st.DataObject) -> None:
        rng = np.random.default_rng(seed)
        steps = [[self.step(rng) for _ in range(self.envs)] for _ in range(self.width)]
        c = self.rows(data, st.sampled_from([0.0, 0.2, 0.5, 0.8, 1.0]))
        self.add_one(steps, [[True] * self.envs] * self.width, False, c)

    def step(self, rng: np.random.Generator) -> Step:
        step = random_step(rng)
        return replace(step, action=step.action % 2, context=int(rng.integers(2)) if self.context else None)

    def add_one(self, steps: Any, valid: Any, masked: bool, c: Any) -> None:
        given = {
            "valid": self.outer(valid) if masked else None,
            "crystallization": None if c is None else self.outer(c),
        }
        if not all(twin.has_room() for twin in self.twins):
            with pytest.raises(RuntimeError, match="wanted"):
                self.memory.add(stacked(steps, self.lanes), **given)
            return
        got = self.memory.add(stacked(steps, self.lanes), **given)
        self.steps += self.envs
        c = c if c is not None else [[0.0] * self.envs] * self.width
        self.compare_slots(got, [t.add(s, v, x) for t, s, v, x in zip(self.twins, steps, valid, c, strict=True)])

    @rule(some=st.booleans(), known=st.booleans(), data=st.data())
    def end_episode(self, some: bool, known: bool, data: st.DataObject) -> None:
        if not all(twin.has_room() for twin in self.twins):
            return
        ended = self.rows(data, st.booleans()) if some else [[True] * self.envs] * self.width
        returns = self.rows(data, st.floats(-5, 20, width=32)) if known else None
        got = self.memory.end_episode(
            self.outer(ended) if some else None, None if returns is None else self.outer(returns)
        )
        each = returns if returns is not None else [None] * self.width
        self.compare_slots(got, [t.end_episode(e, r) for t, e, r in zip(self.twins, ended, each, strict=True)])

    def lane_of(self, lane: int, x: Any) -> Any:
        return x if self.lanes is None else x[lane]

    @rule(share=st.floats(0, 1))
    def sample(self, share: float) -> None:
        size = 1 + int(share * (self.memory.capacity - 1))
        if not all(twin.slots for twin in self.twins):
            with pytest.raises(ValueError, match="empty memory"):
                self.memory.sample(size)
            return
        batch, tickets = self.memory.sample(size), []
        assert set(batch.anchor or {}) == set(self.memory.anchors)
        for lane, twin in enumerate(self.twins):
            slots, weights = twin.sample(size)
            tickets.append(twin.ticket(slots))
            at = partial(self.lane_of, lane)
            assert at(batch.index).tolist() == slots
            assert_close(at(batch.weight), weights, rtol=1e-4, atol=1e-6, name="weight")
            assert np.array_equal(at(batch.obs).cpu().numpy(), [twin.slots[s].data.obs for s in slots])
            for name, anchor in (batch.anchor or {}).items():
                wanted = [twin.strength(name, s) for s in slots]
                assert_close(at(anchor.coefficient), wanted, rtol=1e-4, atol=1e-6, name=f"coefficient of {name}")
        self.outstanding.append((batch, tickets))

    @precondition(lambda self: self.outstanding)
    @rule(which=st.integers(0, 10**6), seed=st.integers(0, 2**32 - 1), again=st.booleans())
    def update(self, which: int, seed: int, again: bool) -> None:
        """With the TD errors of any outstanding batch."""
        which %= len(self.outstanding)
        batch, tickets = self.outstanding[which] if again else self.outstanding.pop(which)
        td_error, slots, errors = self.errors_of(batch.index, seed)
        self.memory.update(batch, td_error)
        for twin, at, error, ticket in zip(self.twins, slots, errors, tickets, strict=True):
            twin.update(at, error, ticket)

    @precondition(lambda self: self.outstanding)
    @rule(which=st.integers(0, 10**6), seed=st.integers(0, 2**32 - 1))
    def update_slots(self, which: int, seed: int) -> None:
        """Without the ticket, the error is that of what the slots hold now, if they hold anything."""
        index = self.outstanding[which % len(self.outstanding)][0].index
        td_error, slots, errors = self.errors_of(index, seed)
        if not all(slot in twin.slots for twin, at in zip(self.twins, slots, strict=True) for slot in at):
            self.refuse_update(index, td_error)
            return
        self.memory.update(index, td_error)
        for twin, at, error in zip(self.twins, slots, errors, strict=True):
            twin.update(at, error)

    def errors_of(self, index: torch.Tensor, seed: int) -> tuple[np.ndarray, list[list[int]], list[list[float]]]:
        """TD errors of the index's shape; slots and TD errors of each lane."""
        slots = index.reshape(self.width, -1).tolist()
        errors = self.draw_errors(np.array(slots), np.random.default_rng(seed)) * 3
        return errors.reshape(tuple(index.shape)), slots, errors.tolist()

    def draw_errors(self, slots: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """TD errors [L, B] of slots [L, B]."""
        return rng.normal(size=slots.shape)

    def refuse_update(self, index: torch.Tensor, td_error: np.ndarray) -> None:
        """Slots of which some are empty."""
        with pytest.raises(ValueError, match="hold an experience"):
            self.memory.update(index, td_error)

    @rule(theta=st.floats(-2, 2, width=32))
    def consolidate(self, theta: float) -> None:
        whole = self.steps >= self.memory.params.interval(self.memory.capacity)
        some = self.memory.params.every_episode and not whole and any(twin.ended for twin in self.twins)
        assert self.memory.due == (whole or some)
        evaluate, judge = critic(theta)
        report = self.memory.consolidate(evaluate)
        for lane, twin in enumerate(self.twins):
            if twin.ended or not some:
                twin.consolidate(judge, rounded_by(self.memory.ledger, lane))
        self.steps = self.steps if some else 0
        assert report.values["crystal"].tolist() == [
            sum(e.phase == "crystal" for e in twin.slots.values()) for twin in self.twins
        ]

    @rule(pinned=st.booleans(), pick=st.integers(0, 10**6))
    def pin(self, pinned: bool, pick: int) -> None:
        """At most three at a time, so that there is something to evict."""
        if not all(twin.slots for twin in self.twins):
            return
        slots = [sorted(twin.slots)[pick % len(twin.slots)] for twin in self.twins]
        if pinned and any(sum(e.pinned for e in twin.slots.values()) >= 3 for twin in self.twins):
            return
        self.memory.pin(torch.tensor([[s] for s in slots] if self.lanes is not None else slots), pinned)
        for twin, slot in zip(self.twins, slots, strict=True):
            twin.pin([slot], pinned)

    @rule()
    def save(self) -> None:
        self.memory.save(self.file)
        self.saved = copy.deepcopy((self.twins, self.steps))

    @precondition(lambda self: self.saved is not None)
    @rule(fresh=st.booleans())
    def load(self, fresh: bool) -> None:
        """The copied twins hold other objects than those drawn: what was drawn before is out of date."""
        if fresh:
            self.memory, self.outstanding = load_memory(self.file, self.device), []  # type: ignore[assignment]
        else:
            self.memory.load(self.file)
        self.twins, self.steps = copy.deepcopy(self.saved)

    @rule(sure=st.integers(0, 4))
    def clear(self, sure: int) -> None:
        if sure == 0:
            self.memory.clear()
            for twin in self.twins:
                twin.clear()
            self.steps = 0

    @invariant()
    def memory_is_sound_and_holds_what_the_twin_holds(self) -> None:
        if not hasattr(self, "memory"):
            return
        self.memory.check()
        assert self.memory.time.tolist() == [twin.time for twin in self.twins]
        for lane, twin in enumerate(self.twins):
            held = self.memory.experiences(lane=lane)
            slots = sorted(twin.slots)
            assert held["index"].tolist() == slots
            if slots:
                self.compare_state(lane, held, [twin.slots[s] for s in slots], slots)
        self.memory.ledger.rebuild_queue()
        wanted = [twin.writable() for twin in self.twins]
        room = min(map(len, wanted))
        assert self.memory.ledger.queue[:, :room].tolist() == [order[:room] for order in wanted]

    def compare_state(self, lane: int, held: Any, items: list[Item], slots: list[int]) -> None:
        assert np.array_equal(held["obs"].cpu().numpy(), [e.data.obs for e in items])
        assert np.array_equal(held["reward"].cpu().numpy(), [e.data.reward for e in items])
        assert held["phase"].tolist() == [PHASES.index(e.phase) + 1 for e in items]
        ledger, at = self.memory.ledger, torch.tensor(slots, device=self.device)
        columns = torch.stack([getattr(ledger, name)[lane, at].double() for name in COLUMNS])
        wanted = [[float(getattr(e, name)) for e in items] for name in COLUMNS]
        assert_close(columns, wanted, rtol=2e-4, atol=1e-5, name=str(COLUMNS))
        weights = [self.twins[lane].weight(e) for e in items]
        assert_close(ledger.tree.weight[lane, at], weights, rtol=2e-4, name="weight")
        self.compare_anchors(lane, {slot: item for slot, item in zip(slots, items, strict=True) if item.evaluated})

    def compare_anchors(self, lane: int, items: dict[int, Item]) -> None:
        """Then go on from the same numbers: rounding must not add up over a long life."""
        at = torch.tensor(list(items), dtype=torch.int64, device=self.device)
        for name, anchor in self.memory.anchors.items() if items else ():
            held, wanted = anchor[lane, at], np.array([item.anchors[name] for item in items.values()])
            assert_close(held, wanted, rtol=1e-5, atol=1e-5, name=f"anchor {name}")
            for item, mine in zip(items.values(), held.cpu().numpy(), strict=True):
                item.anchors[name] = mine
