"""The ledger of a crystal memory: new experiences, one at a time or many, on every backend."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

from crystalrl.dynamics import EMPTY, LIQUID
from crystalrl.memory.crystal.ledger import TINY, CrystalLedger
from crystalrl.memory.storage.spec import StorageSpec
from crystalrl.params import CrystalParams
from crystalrl.random import Streams
from tests.conftest import computing_with

SLOTS = 70


@pytest.fixture(params=["numba", "numpy", "torch", "triton"])
def backend(request: pytest.FixtureRequest) -> Iterator[str]:
    with computing_with(request.param) as name:
        yield name


def ledger_of(lanes: int = 2, envs: int = 1, n_step: int = 1, **params: Any) -> CrystalLedger:
    spec = StorageSpec(SLOTS, obs=(2,), action=3, lanes=lanes, envs=envs, n_step=n_step)
    clock = torch.arange(lanes) + 2**31 + 5  # wraps in 32 bits
    return CrystalLedger(spec, Streams(list(range(lanes))), CrystalParams(**params), clock)


def stored(ledger: CrystalLedger, valid: np.ndarray, c: np.ndarray | None) -> torch.Tensor:
    ledger.reserve(valid.shape[1])
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


@pytest.mark.parametrize("c", [None, 0.2, 0.5, 0.9])
def test_one_new_experience_is_written_as_many_are(c: float | None) -> None:
    state = None if c is None else torch.full((1, 1), c)
    for name in ("numba", "numpy"):
        with computing_with(name):
            single, many = (ledger_of(lanes=1) for _ in range(2))
        for _ in range(SLOTS // 4):
            single.reserve(1)
            slot = single.add_one(state)
            assert slot == int(stored(many, np.ones((1, 1), bool), None if state is None else state.numpy()))
        single.check()
        for key, tensor in many.tensors().items():
            assert torch.equal(single.tensors()[key], tensor), key


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
