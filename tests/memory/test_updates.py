"""Updates with several batches outstanding: an error reaches the experience that it belongs to, or none."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from crystalrl import CrystalMemory, CrystalParams, PrioritizedMemory, ReservoirMemory, UniformMemory, load_memory
from crystalrl.memory import ReplayMemory
from crystalrl.memory.updates import checked_update
from tests.conftest import computing_with
from tests.experience import SMALL, assert_same_state, feed, simple
from tests.memory.refusals import begun, refused

KINDS: dict[str, tuple[type[ReplayMemory], dict[str, Any]]] = {
    "uniform": (UniformMemory, {}),
    "reservoir": (ReservoirMemory, {"recent": 1.0}),
    "prioritized": (PrioritizedMemory, {"alpha": 1.0, "epsilon": 1e-9}),
    "crystal": (CrystalMemory, {"params": CrystalParams(phases=False)}),
}
LEARNING = ("prioritized", "crystal")


@pytest.fixture(params=["numba", "numpy", "torch", "triton"])
def way(request: pytest.FixtureRequest) -> Iterator[str]:
    with computing_with(request.param) as name:
        yield name


def built(kind: str, capacity: int) -> ReplayMemory:
    cls, options = KINDS[kind]
    return cls(capacity, **SMALL, **options)


def known(memory: ReplayMemory) -> list[float]:
    """|TD error| that each slot is known by; none where the memory has no use for it."""
    if isinstance(memory, CrystalMemory):
        return memory.ledger.error[0].tolist()
    return memory.ledger.tree.weight[0, : memory.capacity].tolist() if isinstance(memory, PrioritizedMemory) else []


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_is_out_of_date_though_another_of_the_same_slot_was_updated(way: str, kind: str) -> None:
    memory = built(kind, 1)
    memory.add(simple(0))
    first, second = memory.sample(1), memory.sample(1)
    memory.update(first, torch.tensor([0.5]))
    memory.add(simple(1))
    before = memory.state_dict()
    memory.update(second, torch.tensor([9.0]))
    assert_same_state(before, memory.state_dict())
    memory.check()


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_is_out_of_date_though_its_slot_was_drawn_again(way: str, kind: str) -> None:
    memory = built(kind, 1)
    memory.add(simple(0))
    first = memory.sample(1)
    memory.add(simple(1))
    second, before = memory.sample(1), memory.state_dict()
    memory.update(first, torch.tensor([9.0]))
    assert_same_state(before, memory.state_dict())
    memory.update(second, torch.tensor([3.0]))
    assert known(memory) == pytest.approx([3.0] * (kind in LEARNING))
    memory.check()


@pytest.mark.parametrize("kind", LEARNING)
def test_plain_slots_stand_for_what_they_hold_now_whatever_was_drawn_before(way: str, kind: str) -> None:
    memory = built(kind, 1)
    memory.add(simple(0))
    memory.sample(1)  # never updated
    slot = memory.add(simple(1))
    memory.update(slot[None], torch.tensor([3.0]))
    assert known(memory) == pytest.approx([3.0])
    memory.update(np.array([int(slot)]), [5.0])
    assert known(memory) == pytest.approx([5.0])


@pytest.mark.parametrize("kind", LEARNING)
def test_a_learner_that_prefetches_updates_nothing_but_what_it_drew(way: str, kind: str) -> None:
    """One batch is always outstanding, at capacity 200; a dict of experiences decides what is out of date."""
    memory, held, errors = built(kind, 200), {}, {}
    newcomer, number, late, previous = 1.0, 0, 0, None
    rng = np.random.default_rng(0)
    for step in range(20 if way == "triton" else 60):
        for _ in range(200 if step == 0 else 10):
            slot = int(memory.add(simple(number)))
            held[slot], errors[slot], number = number, newcomer if kind == "prioritized" else 0.0, number + 1
        batch, error = memory.sample(32), (rng.permutation(32) + 1.0 + step).astype(np.float32)
        drawn = [held[slot] for slot in batch.index.tolist()]
        if previous is not None:
            memory.update(previous[0], error)
            for slot, experience, one in zip(previous[0].index.tolist(), previous[1], error.tolist(), strict=True):
                late += held[slot] != experience
                if held[slot] == experience:
                    errors[slot], newcomer = one, max(newcomer, one)
            if way in ("numba", "numpy"):  # elsewhere either of two errors of a slot may count
                assert known(memory) == pytest.approx([errors[slot] for slot in range(200)])
            if kind == "prioritized":
                assert float(memory.ledger.max_priority) == pytest.approx(newcomer)
        previous = batch, drawn
    assert late > 10
    memory.check()


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_from_before_a_clear_or_a_load_changes_nothing(kind: str, tmp_path: Any) -> None:
    memory = built(kind, 4)
    feed(memory, 4)
    memory.save(tmp_path / "m")
    feed(memory, 2, first=4)
    batch = memory.sample(16)
    memory.load(tmp_path / "m")
    feed(memory, 2, first=8)  # the same number of writes as before the load
    before = memory.state_dict()
    memory.update(batch, torch.full((16,), 9.0))
    assert_same_state(before, memory.state_dict())
    batch = memory.sample(16)
    memory.clear()
    memory.update(batch, torch.full((16,), 9.0))
    feed(memory, 4, first=20)
    before = memory.state_dict()
    memory.update(batch, torch.full((16,), 9.0))
    assert_same_state(before, memory.state_dict())


@pytest.mark.parametrize("kind", LEARNING)
def test_states_with_the_record_of_draws_that_earlier_versions_wrote_still_load(kind: str) -> None:
    memory, other = built(kind, 6), built(kind, 6)
    feed(memory, 9)
    batch = memory.sample(8)
    now = memory.state_dict()
    generation = now["ledger.slot.claims"]
    assert generation.shape == (1, 6)
    drawn = torch.full_like(generation, -1)
    other.load_state_dict({**now, "ledger.slot.claims": torch.stack([generation, drawn], -1)})
    assert_same_state(now, other.state_dict())
    for each in (memory, other):
        each.update(batch, torch.arange(1.0, 9.0))
    assert known(other) == known(memory)


@pytest.mark.parametrize("kind", LEARNING)
def test_a_batch_keeps_its_meaning_in_a_memory_loaded_from_a_file(kind: str, tmp_path: Any) -> None:
    memory = built(kind, 4)
    feed(memory, 4)
    batch = memory.sample(16)
    feed(memory, 2, first=4)
    memory.save(tmp_path / "m")
    other = load_memory(tmp_path / "m")
    for each in (memory, other):
        each.update(batch, torch.arange(1.0, 17.0))
    assert known(other) == known(memory)
    assert any(value > 1 for value in known(memory))


def test_an_update_of_empty_slots_is_told_at_the_next_check_where_nothing_waits_for_the_device() -> None:
    with computing_with("torch"):
        memory = built("prioritized", 8)
        feed(memory, 3)
        memory.update(torch.tensor([1, 5, 8]), torch.tensor([7.0, 7.0, 7.0]))
    assert known(memory) == pytest.approx([1.0, 7.0, 1.0] + [0.0] * 5)
    for _ in range(2):
        with pytest.raises(ValueError, match="wrong action or slot was given"):
            memory.check()
    memory.clear()
    memory.check()


def test_slots_errors_and_tickets_get_a_lane_axis() -> None:
    memory = begun(PrioritizedMemory)
    batch = memory.sample(4)
    slots, error, ticket = checked_update(memory.spec, memory.device, batch, [1.0, 2.0, 3.0, 4.0])
    assert torch.equal(slots, batch.index[None])
    assert error.tolist() == [[1.0, 2.0, 3.0, 4.0]]
    assert ticket is not None
    assert ticket.dtype == torch.int32
    assert torch.equal(ticket, memory.ledger.tree.generation.gather(1, slots))
    assert checked_update(memory.spec, memory.device, batch.index, np.ones(4))[2] is None


def test_a_ticket_of_another_shape_is_refused() -> None:
    memory = begun(PrioritizedMemory)
    batch = memory.sample(4)
    assert batch.ticket is not None
    with refused(memory, r"^ticket: wanted the shape \(4,\) of the index, got \(3,\)"):
        memory.update(replace(batch, ticket=batch.ticket[:3]), torch.ones(4))
