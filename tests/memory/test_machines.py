"""Random operations on a memory and on its twin: after each of them the two hold and draw the same."""

from __future__ import annotations

import copy
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule, run_state_machine_as_test

from crystalrl import Batch, load_memory
from crystalrl.memory import ReplayMemory
from tests.conftest import computing_with
from tests.experience import MIXED, PLAIN, part_of, random_step, stacked
from tests.memory.twin_machine import TwinMachine
from tests.reference import TWINS, Experience, PrioritizedTwin

PARAMS: dict[str, list[dict[str, Any]]] = {
    "UniformMemory": [{}],
    "PrioritizedMemory": [
        {},
        {"alpha": 1.0, "beta": 0.0, "is_steps": 20, "epsilon": 0.01},
        {"alpha": 0.0, "beta": 1.0},
    ],
    "ReservoirMemory": [
        {},
        {"recent": 0.0},
        {"recent": 1.0, "recent_batch": 0.0},
        {"recent": 0.2, "recent_batch": 0.75},
    ],
}
SEED = 5
OBSERVED = ("obs", "next_obs")


class Machine(TwinMachine):
    """Subclasses say which memory."""

    kind: str

    def __init__(self) -> None:
        super().__init__()
        self.added: list[torch.Tensor] = []
        """Slots that `add` returned."""

    @initialize(extra=st.integers(0, 20), mixed=st.booleans(), context=st.booleans(), data=st.data())
    def build(self, extra: int, mixed: bool, context: bool, data: st.DataObject) -> None:
        self.mixed, self.context = mixed, context
        params = data.draw(st.sampled_from(PARAMS[self.kind]))
        shared = {"capacity": self.envs * self.n_step + extra, "envs": self.envs, "n_step": self.n_step, "gamma": 0.9}
        self.memory = ReplayMemory.kinds[self.kind](
            **shared, **params, **(MIXED if mixed else PLAIN), lanes=self.lanes, context=context, seed=SEED,
            device=self.device,
        )  # fmt: skip
        self.twins = [TWINS[self.kind](seed=SEED + lane, **shared, **params) for lane in range(self.width)]

    @rule(seed=st.integers(0, 2**32 - 1), count=st.integers(1, 12), masked=st.booleans(), data=st.data())
    def add(self, seed: int, count: int, masked: bool, data: st.DataObject) -> None:
        rng = np.random.default_rng(seed)
        for _ in range(count):
            steps = [[random_step(rng, self.mixed, self.context) for _ in range(self.envs)] for _ in range(self.width)]
            valid = self.rows(data, st.booleans()) if masked else [[True] * self.envs] * self.width
            got = self.memory.add(stacked(steps, self.lanes), valid=self.outer(valid) if masked else None)
            self.compare_slots(got, [t.add(s, v) for t, s, v in zip(self.twins, steps, valid, strict=True)])
        self.offer_index(got)

    @rule(some=st.booleans(), data=st.data())
    def end_episode(self, some: bool, data: st.DataObject) -> None:
        ended = self.rows(data, st.booleans()) if some else [[True] * self.envs] * self.width
        got = self.memory.end_episode(self.outer(ended) if some else None)
        self.compare_slots(got, [t.end_episode(e) for t, e in zip(self.twins, ended, strict=True)])

    @rule(share=st.floats(0, 1))
    def sample(self, share: float) -> None:
        size = 1 + int(share * (self.memory.capacity - 1))
        if not all(twin.slots for twin in self.twins):
            with pytest.raises(ValueError, match="empty memory"):
                self.memory.sample(size)
            return
        batch, tickets = self.memory.sample(size), []
        for lane, twin in enumerate(self.twins):
            slots, weights = twin.sample(size)
            tickets.append(twin.ticket(slots))
            one = batch if self.lanes is None else part_of(batch, lane)
            assert one.index.tolist() == slots
            self.compare_weights(one.weight, weights)
            compare(one, [twin.slots[slot] for slot in slots])
        self.outstanding.append((batch, tickets))

    @precondition(lambda self: self.outstanding)
    @rule(which=st.integers(0, 10**6), seed=st.integers(0, 2**32 - 1), again=st.booleans())
    def update(self, which: int, seed: int, again: bool) -> None:
        """With the TD errors of any outstanding batch."""
        which %= len(self.outstanding)
        batch, tickets = self.outstanding[which] if again else self.outstanding.pop(which)
        self.report(batch, batch.index, tickets, seed)

    @precondition(lambda self: self.added)
    @rule(which=st.integers(0, 10**6), seed=st.integers(0, 2**32 - 1))
    def update_slots(self, which: int, seed: int) -> None:
        """Whatever was drawn before: the error is that of what the slots hold now."""
        slots = self.added[which % len(self.added)]
        self.report(slots, slots, [None] * self.width, seed)

    def report(self, drawn: Batch | torch.Tensor, index: torch.Tensor, tickets: list[Any], seed: int) -> None:
        slots = index.reshape(self.width, -1).tolist()
        errors = self.errors_of(np.array(slots), np.random.default_rng(seed)) * 10
        self.memory.update(drawn, errors.reshape(tuple(index.shape)))
        for twin, at, error, ticket in zip(self.twins, slots, errors.tolist(), tickets, strict=True):
            twin.update(at, error, ticket)

    def errors_of(self, slots: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """TD errors [L, B] of slots [L, B]."""
        return rng.normal(size=slots.shape)

    @rule()
    def save(self) -> None:
        self.memory.save(self.file)
        self.saved = copy.deepcopy(self.twins)

    @precondition(lambda self: self.saved is not None)
    @rule(rebuilt=st.booleans())
    def load(self, rebuilt: bool) -> None:
        """The copied twins hold other objects than those drawn: what was drawn before is out of date."""
        if rebuilt:
            self.memory, self.outstanding = load_memory(self.file, self.device), []
        else:
            self.memory.load(self.file)
        self.twins, self.added = copy.deepcopy(self.saved), []

    @rule(sure=st.integers(0, 3))
    def clear(self, sure: int) -> None:
        if sure == 0:
            self.memory.clear()
            for twin in self.twins:
                twin.clear()
            self.added = []

    @invariant()
    def memory_is_sound_and_holds_what_the_twin_holds(self) -> None:
        if not hasattr(self, "memory"):
            return
        self.memory.check()
        assert len(self.memory) == max(len(twin.slots) for twin in self.twins)
        assert self.memory.time.tolist() == [twin.time for twin in self.twins]
        for lane, twin in enumerate(self.twins):
            slots = sorted(twin.slots)
            assert slots == list(range(len(slots)))
            stored = self.memory.arena.unpack(self.memory.arena.rows[lane, : len(slots)])
            compare(SimpleNamespace(**stored), [twin.slots[s] for s in slots])
            if isinstance(twin, PrioritizedTwin):
                self.compare_priorities(lane, twin, slots)

    def compare_weights(self, given: torch.Tensor, wanted: list[float]) -> None:
        """Importance weights of a batch."""
        np.testing.assert_array_max_ulp(given.numpy(), np.array(wanted, np.float32), maxulp=1)

    def compare_priorities(self, lane: int, twin: PrioritizedTwin, slots: list[int]) -> None:
        held = self.memory.ledger.tree.weight[lane, : len(slots)].tolist()
        assert held == [float(twin.weights[s]) for s in slots]

    def offer_index(self, slots: torch.Tensor) -> None:
        """Slots straight from `add`, if all lanes have one, may be updated too."""
        flat = slots.reshape(self.width, -1)
        if bool((flat[:, 0] >= 0).all()):
            self.added.append(flat[:, :1] if self.lanes is not None else flat[0, :1])


def compare(batch: Batch | SimpleNamespace, wanted: list[Experience]) -> None:
    """Payload of a batch without lanes against experiences, to the last bit."""
    for name in ("action", "reward", "discount", "context", *OBSERVED):
        given = getattr(batch, name)
        values = [getattr(e, name) for e in wanted]
        if name == "context" and given is None:
            assert all(value is None for value in values)
        elif isinstance(given, dict):
            for key, part in given.items():
                equal(part, [value[key] for value in values], f"{name}.{key}")
        else:
            equal(given, values, name)


def equal(given: torch.Tensor, values: list[Any], name: str) -> None:
    array = given.cpu().numpy()
    if not values:
        assert array.size == 0, name
        return
    wanted = np.array(values)
    assert array.dtype == wanted.dtype or name == "context", name
    assert np.array_equal(array, wanted), name


CASES = [(kind, lanes, n, envs) for kind in TWINS for lanes in (None, 1, 3) for n in (1, 3) for envs in (1, 2)]


def run(kind: str, lanes: int | None, n_step: int, envs: int, examples: int) -> None:
    machine = type("M", (Machine,), {"kind": kind, "lanes": lanes, "n_step": n_step, "envs": envs})
    run_state_machine_as_test(machine, settings=settings(max_examples=examples, stateful_step_count=25))


@pytest.mark.parametrize(("kind", "lanes", "n_step", "envs"), CASES)
def test_memory_agrees_with_its_twin_after_every_operation(
    kind: str, lanes: int | None, n_step: int, envs: int
) -> None:
    run(kind, lanes, n_step, envs, examples=10)


@pytest.mark.parametrize("lanes", [None, 3])
def test_without_numba_memory_agrees_with_its_twin_too(lanes: int | None) -> None:
    with computing_with("numpy"):
        run("PrioritizedMemory", lanes, n_step=1, envs=2, examples=10)
        run("UniformMemory", lanes, n_step=3, envs=1, examples=5)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "lanes", "n_step", "envs"), CASES)
def test_memory_agrees_with_its_twin_over_many_more_runs(kind: str, lanes: int | None, n_step: int, envs: int) -> None:
    run(kind, lanes, n_step, envs, examples=100)
