"""The ledger of a crystal memory: new experiences, one at a time or many, on every backend."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from crystalrl import CrystalMemory, CrystalParams
from crystalrl.dynamics import EMPTY, LIQUID
from crystalrl.memory.crystal.ledger import TINY, CrystalLedger
from crystalrl.memory.storage.spec import StorageSpec
from crystalrl.random import Streams
from tests.conftest import computing_with
from tests.memory.crystal.experience import by_reward, feed, memory_of, stream

SLOTS = 70


@pytest.fixture(params=["numba", "numpy", "torch", "triton"])
def backend(request: pytest.FixtureRequest) -> Iterator[str]:
    with computing_with(request.param) as name:
        yield name


def ledger_of(lanes: int = 2, envs: int = 1, n_step: int = 1, **params: Any) -> CrystalLedger:
    spec = StorageSpec(SLOTS, obs=(2,), action=3, lanes=lanes, envs=envs, n_step=n_step)
    clock = torch.arange(lanes) + 2**31 + 5  # wraps in 32 bits
    return CrystalLedger(spec, Streams(list(range(lanes))), CrystalParams.repaired(**params), clock)


def stored(ledger: CrystalLedger, valid: np.ndarray, c: np.ndarray | None) -> torch.Tensor:
    slots = ledger.allocate(torch.from_numpy(valid))
    ledger.commit(slots, None if c is None else torch.from_numpy(c))
    return slots


@pytest.mark.parametrize("phases", [True, False])
def test_new_experiences_are_written_as_a_plain_loop_would(backend: str, phases: bool) -> None:
    rng, ledger = np.random.default_rng(0), ledger_of(envs=3, n_step=2, phases=phases, tau_L=0.3, tau_C=[0.6, 0.7])
    for column in (ledger.utility, ledger.error, ledger.interference, ledger.key, ledger.boost):
        column.fill_(0.5)
    ledger.streak.fill_(3)
    wanted: dict[tuple[int, int], tuple[float, int, int]] = {}
    number = [0, 0]
    for step in range(8):
        valid, c = rng.random((2, 6)) < 0.8, rng.random((2, 6)).astype(np.float32)
        slots = stored(ledger, valid, c if step % 2 else None)
        for lane in range(2):
            for place in range(6):
                if valid[lane, place]:
                    key = lane, int(slots[lane, place])
                    wanted[key] = (float(c[lane, place]) if step % 2 else 0.0, number[lane], place // 2)
                    number[lane] += 1
    ledger.check()
    assert ledger.number.tolist() == number
    assert ledger.count.tolist() == [sum(lane == which for lane, _ in wanted) for which in range(2)]
    for (lane, slot), (c_of, birth, env) in wanted.items():
        tau = (0.3, (0.6, 0.7)[lane])
        phase = LIQUID + (sum(c_of > np.float32(t) for t in tau) if phases else 0)
        weight = [1.0, np.sqrt(np.float32(c_of)), c_of][phase - LIQUID]
        columns = (ledger.c, ledger.birth, ledger.env, ledger.phase, ledger.updated)
        got = [column[lane, slot].item() for column in columns]
        assert got == [c_of, birth, env, phase, np.int64(lane + 2**31 + 5).astype(np.int32).item()]
        assert float(ledger.tree.weight[lane, slot]) == pytest.approx(max(weight, TINY), rel=1e-6)
        for column in (ledger.utility, ledger.error, ledger.interference, ledger.key, ledger.boost, ledger.streak):
            assert column[lane, slot].item() == 0
    empty = ledger.phase == EMPTY
    assert int(empty.sum()) == 2 * SLOTS - len(wanted)
    assert bool((ledger.utility[empty] == 0.5).all())


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(("lanes", "envs"), [(1, 1), (1, 8), (3, 2)])
def test_experiences_are_admitted_at_once_as_they_are_allocated_and_committed(lanes: int, envs: int) -> None:
    for name in ("numba", "numpy"):
        with computing_with(name):
            at_once, one_by_one = (ledger_of(lanes, envs) for _ in range(2))
        time, slots = np.arange(lanes), np.empty((lanes, envs), np.int64)
        for step in range(1, SLOTS // 2 // envs):
            at_once.admit(slots, time)
            assert slots.tolist() == stored(one_by_one, np.ones((lanes, envs), bool), None).tolist()
            assert time.tolist() == [lane + step * envs for lane in range(lanes)]
        at_once.check()
        for key, tensor in one_by_one.tensors().items():
            assert torch.equal(at_once.tensors()[key], tensor), key


def test_a_slot_written_again_leaves_its_old_phase_and_raises_its_generation(backend: str) -> None:
    ledger = ledger_of(lanes=1)
    slots = stored(ledger, np.ones((1, 4), bool), np.array([[0.1, 0.5, 0.9, 0.0]], np.float32))
    assert ledger.filled.tolist() == [[2.0, 1.0, 1.0]]
    generation = ledger.generation.clone()
    ledger.commit(slots, torch.tensor([[0.9]]))
    assert ledger.filled.tolist() == [[0.0, 0.0, 4.0]]
    assert (ledger.generation - generation)[0, slots[0]].tolist() == [1] * 4
    ledger.check()


def test_the_queue_names_free_slots_then_liquid_by_utility_and_no_others() -> None:
    ledger = ledger_of(lanes=1)
    stored(ledger, np.ones((1, SLOTS), bool), np.where(np.arange(SLOTS) % 3 == 0, 0.9, 0.0).astype(np.float32)[None])
    liquid = ledger.phase[0] == LIQUID
    ledger.flags.fill_(1)
    ledger.utility.copy_(torch.rand(1, SLOTS, generator=torch.Generator().manual_seed(0)))
    phase = ledger.phase.clone()
    phase[0, 7] = EMPTY
    ledger.relabel(phase, torch.ones(1, 1, dtype=torch.bool))
    named = ledger.queue[0, : int(ledger.tail)].tolist()
    others = [slot for slot in range(SLOTS) if bool(liquid[slot]) and slot != 7]
    assert named == [7, *sorted(others, key=lambda slot: float(ledger.utility[0, slot]))]


def test_stored_names_stay_whatever_the_attributes_are_called() -> None:
    names = set(ledger_of(envs=2).tensors())
    columns = {"c", "utility", "error", "suspicion", "key", "boost", "streak", "flags", "birth", "updated", "env"}
    lanes = {"number", "highest", "filled", "queue", "head", "tail"}
    assert names == {f"slot.{name}" for name in columns | {"weight", "claims", "label"}} | lanes


STILL: dict[str, Any] = {"sigma": 0.0, "interference": "none", "boost": False}


def pinned_births(memory: CrystalMemory, slots: list[int]) -> list[int]:
    memory.pin(torch.tensor(slots))
    return memory.ledger.birth[0, slots].tolist()


def test_pinned_experiences_survive_being_overwritten_and_the_queue_being_rebuilt() -> None:
    memory = memory_of(32)
    feed(memory, 32)
    births = pinned_births(memory, [0, 5, 31])
    feed(memory, 500, seed=1)
    assert memory.ledger.birth[0, [0, 5, 31]].tolist() == births
    memory.consolidate(by_reward)
    feed(memory, 500, seed=2)
    memory.consolidate(by_reward)
    assert memory.ledger.birth[0, [0, 5, 31]].tolist() == births


def test_pinned_experiences_survive_overflow_of_every_phase() -> None:
    """Everything in one phase: far beyond its room."""
    for c, phase in ((0.1, "liquid"), (0.5, "glass"), (0.9, "crystal")):
        memory = memory_of(64, CrystalParams.repaired(**STILL, alpha=0.0))
        feed(memory, 30 if phase != "liquid" else 60, crystallization=c)
        births = pinned_births(memory, list(range(8)))
        memory.consolidate(lambda batch: (batch.index >= 8).float())  # the pinned are worth least
        assert set(births) <= set(memory.ledger.birth[0, memory.experiences(phase)["index"]].tolist())


def test_pinned_crystals_survive_streak_eviction_and_others_do_not() -> None:
    params = CrystalParams.paper(alpha=0.0, beta=0.0, sigma=0.0, tau_evict=2, epsilon=10.0, delta_r=0.1)
    memory = memory_of(64, replace(params, capacity=(1.0, 1.0, 8.0)))
    feed(memory, 30, crystallization=0.9)
    births = pinned_births(memory, [3])
    for _ in range(2):
        report = memory.consolidate(by_reward)
    assert report.values["streak_evicted"][0] == 29
    assert memory.ledger.birth[0, memory.experiences()["index"]].tolist() == births


def test_unpinned_experiences_may_go_again() -> None:
    memory = memory_of(16)
    feed(memory, 16)
    memory.pin(torch.tensor([4]))
    memory.pin(torch.tensor([4]), pinned=False)
    before = int(memory.ledger.birth[0, 4])
    feed(memory, 40, seed=1)
    assert int(memory.ledger.birth[0, 4]) != before


def test_experiences_may_start_crystallized() -> None:
    memory = memory_of(64)
    for c, phase in ((0.0, "liquid"), (0.3, "liquid"), (0.31, "glass"), (0.7, "glass"), (0.71, "crystal")):
        slot = feed(memory, 1, crystallization=c)[0]
        held = memory.experiences(phase)
        assert slot in held["index"].tolist()
        assert float(held["c"][held["index"] == slot]) == pytest.approx(c)
    assert feed(memory, 1)[0] in memory.experiences("liquid")["index"].tolist()


def test_a_phase_opened_by_a_crystallized_experience_is_drawn_at_once() -> None:
    memory = memory_of(64)
    feed(memory, 20)
    memory.sample(20)
    slot = feed(memory, 1, crystallization=0.9)[0]
    assert int((memory.sample(20).index == slot).sum()) == 1  # 5 % of the batch


def test_a_batch_is_whole_when_the_last_liquid_is_gone() -> None:
    memory = memory_of(16, CrystalParams.repaired(capacity=(10.0, 1.0, 1.0)))
    feed(memory, 16)
    feed(memory, 16, seed=1, crystallization=0.9)
    assert len(memory.experiences("liquid")["index"]) == 0
    assert set(memory.ledger.phase[0, memory.sample(16).index].tolist()) == {3}


def test_parallel_environments_may_start_with_their_own_crystallization() -> None:
    memory = memory_of(64, lanes=2, envs=2)
    transition = next(stream(1, lead=(2, 2)))
    slots = memory.add(transition, crystallization=[[0.0, 0.5], [0.8, 1.0]])
    assert memory.ledger.phase.gather(1, slots).tolist() == [[1, 2], [3, 3]]


@pytest.mark.parametrize("envs", [1, 2])
@pytest.mark.parametrize("start", [2**31 - 25, 2**32 - 25])
def test_time_stamps_may_wrap(envs: int, start: int) -> None:
    """A memory whose time passes what a time stamp holds does what a young one does."""
    ends = []
    for time in (0, start):
        memory = memory_of(40, CrystalParams.repaired(time_unit=10, slices=3), envs=envs)
        memory.time += time
        for number in range(4):
            for transition in stream(10, number, envs):
                memory.add(transition)
            memory.consolidate(by_reward)
        ends.append(memory.ledger.c.clone())
    assert ends[0].unique().numel() > 10
    assert torch.equal(*ends)


def test_what_was_evicted_since_it_was_drawn_is_skipped_by_an_update() -> None:
    memory = memory_of(32, CrystalParams.repaired(**STILL, alpha=0.0, borrow=False))
    feed(memory, 32)
    batch = memory.sample(32)
    memory.consolidate(by_reward)
    gone = memory.ledger.phase[0, batch.index] == 0
    assert bool(gone.any())
    assert not bool(gone.all())
    memory.update(batch, torch.full((32,), 9.0))
    memory.check()
    assert bool((memory.ledger.error[0, batch.index[~gone]] == 9).all())


def test_importance_weights_of_the_paper_correct_the_draws_of_the_whole_memory(backend: str) -> None:
    """Alike experiences: w ∝ (N·quota/B / n)^(−β). Crystals, one in forty and one draw in eight, weigh least."""
    ledger = ledger_of(
        lanes=1, importance="memory", batch=(0.5, 0.375, 0.125), draws_per_experience=None, gate=0.0, is_exponent=0.5
    )
    c = np.array([[0.0] * 28 + [0.5] * 11 + [0.9]], np.float32)
    stored(ledger, np.ones((1, 40), bool), c)
    drawn = ledger.sampler().draw(64, torch.zeros(1, dtype=torch.int64))
    slots, weight = drawn[:2]
    raw = {0.0: (40 * 0.5 / 28) ** -0.5, 0.5: (40 * 0.375 / 11) ** -0.5, 0.9: (40 * 0.125 / 1) ** -0.5}
    wanted = [raw[round(float(c[0, slot]), 1)] / max(raw.values()) for slot in slots[0].tolist()]
    assert weight[0].tolist() == pytest.approx(wanted, rel=1e-5)
