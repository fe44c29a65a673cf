"""Overlapping calls of two threads are detected; everything else works as without the detection."""

from __future__ import annotations

import inspect
import threading
from typing import Any

import numpy as np
import pytest
import torch

from crystalrl import Batch, CrystalMemory, CrystalParams, Transition, UniformMemory
from crystalrl.memory.crystal.background import Background
from crystalrl.memory.exclusive import Calls, exclusive
from tests.experience import SMALL, feed, simple
from tests.memory.crystal.experience import by_reward, stream


class Thing:
    """Counts, and waits in the middle of it."""

    def __init__(self) -> None:
        self.calls: Calls = {}
        self.inside, self.leave, self.total = threading.Event(), threading.Event(), 0

    @exclusive
    def slow(self) -> None:
        """Wait."""
        self.inside.set()
        self.leave.wait(10)

    @exclusive
    def count(self, number: int, *, times: int = 1, sign: bool = True) -> int:
        self.total += number * times * (1 if sign else -1)
        return self.total

    @exclusive
    def twice(self, number: int) -> int:
        self.count(number)
        return self.count(number, times=1)

    @exclusive
    def fail(self) -> None:
        raise KeyError("inside")


def test_a_call_during_another_threads_call_names_both_and_changes_nothing() -> None:
    thing = Thing()
    other = threading.Thread(target=thing.slow)
    other.start()
    assert thing.inside.wait(10)
    with pytest.raises(RuntimeError, match=r"^count: wanted one thread at a time, got a call during `slow` of another"):
        thing.count(1)
    thing.leave.set()
    other.join()
    assert thing.total == 0
    assert thing.count(1) == 1


def test_a_thread_may_call_one_method_from_within_another() -> None:
    assert Thing().twice(4) == 8


def test_after_an_error_the_next_call_may_come_from_any_thread() -> None:
    thing = Thing()
    with pytest.raises(KeyError, match="inside"):
        thing.fail()
    other = threading.Thread(target=thing.count, args=(3,))
    other.start()
    other.join()
    assert thing.total == 3


def test_an_interrupted_call_leaves_its_thread_able_to_go_on() -> None:
    thing = Thing()
    thing.calls[0] = (
        threading.get_ident(),
        "count",
    )  # what an interrupt before the first line of the call leaves behind
    assert thing.count(5) == 5


def test_the_signature_stays() -> None:
    assert (
        str(inspect.signature(Thing.count))
        == "(self, number: 'int', *, times: 'int' = 1, sign: 'bool' = True) -> 'int'"
    )
    assert Thing().count(2, times=3, sign=False) == -6
    assert Thing.slow.__doc__ == "Wait."
    with pytest.raises(TypeError, match="positional"):
        Thing().count(2, 3)  # type: ignore[misc]


CHANGING = ("add", "sample", "update", "consolidate", "clear", "end_episode", "state_dict", "load_state_dict", "load")
CRYSTAL = (*CHANGING, "plan", "apply", "snapshot", "pin", "restart_clock", "reserve_slots", "commit", "check")


@pytest.mark.parametrize("name", CRYSTAL)
def test_every_call_that_reads_or_writes_a_crystal_memory_is_exclusive(name: str) -> None:
    memory = CrystalMemory(8, **SMALL)
    feed(memory, 3)
    memory.calls[0] = (threading.get_ident() + 1, "sample")  # another thread is at work
    method = getattr(memory, name)
    wanted = [p for p in inspect.signature(method).parameters.values() if p.default is p.empty]
    with pytest.raises(RuntimeError, match=f"{name}: wanted one thread"):
        method(*[None] * len(wanted))
    memory.calls.clear()
    memory.check()


def test_adding_while_another_thread_consolidates_is_refused_with_nothing_changed() -> None:
    memory = CrystalMemory(64, obs=(2,), action=3, params=CrystalParams(every=10))
    for step in stream(40):
        memory.add(step)
    before, begun, leave = memory.state_dict(), threading.Event(), threading.Event()

    def critic(batch: Batch) -> torch.Tensor:
        begun.set()
        leave.wait(10)
        return batch.reward

    other = threading.Thread(target=memory.consolidate, args=(critic,))
    other.start()
    assert begun.wait(10)
    with pytest.raises(RuntimeError, match=r"add: .* during `consolidate`"):
        memory.add(next(stream(1)))
    leave.set()
    other.join()
    memory.check()
    assert torch.equal(memory.time, before["memory.time"])
    assert torch.equal(memory.arena.rows[:, :40], before["memory.slot.rows"])


def test_threads_that_take_turns_are_not_disturbed() -> None:
    memory, lock = UniformMemory(50, **SMALL), threading.Lock()
    failed: list[Exception] = []

    def work(first: int) -> None:
        try:
            for number in range(first, first + 200):
                with lock:
                    memory.add(simple(number))
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(1000 * k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert int(memory.time) == 800


def test_consolidation_in_the_background_goes_on_while_experiences_are_stored_and_drawn() -> None:
    memory = CrystalMemory(64, obs=(2,), action=3, params=CrystalParams(every=10))
    begun, leave = threading.Event(), threading.Event()

    def critic(batch: Batch) -> torch.Tensor:
        begun.set()
        leave.wait(10)
        return by_reward(batch)

    background = Background(memory, lambda: critic, lag=100)
    for step in stream(10):
        memory.add(step)
    background.step()
    assert begun.wait(10)  # the plan is being made now
    for step in stream(20, seed=1):
        memory.add(step)
        memory.sample(4)
    leave.set()
    assert background.finish() is not None
    memory.check()


def test_unguarded_threads_break_nothing_silently() -> None:
    """Two threads without a lock: every call succeeds whole or raises."""
    memory = CrystalMemory(40, obs=(2,), action=3, params=CrystalParams(every=10))
    done, stop = {"added": 0}, threading.Event()

    def add() -> None:
        rng = np.random.default_rng(0)
        while not stop.is_set():
            obs = rng.normal(size=2).astype(np.float32)
            try:
                memory.add(Transition(obs, 0, 1.0, obs, False))
                done["added"] += 1
            except RuntimeError as error:
                refused.append(str(error))

    refused: list[Any] = []
    thread = threading.Thread(target=add)
    thread.start()
    for _ in range(30):
        try:
            memory.consolidate(by_reward)
        except RuntimeError as error:
            refused.append(str(error))
    stop.set()
    thread.join()
    memory.check()
    assert int(memory.time) == done["added"]
    assert refused
