"""Tickets of outstanding draws, found again by the slots alone."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
import torch

from crystalrl import Batch, PrioritizedMemory
from crystalrl.integrations.outstanding import LIMIT, Lock, Outstanding
from tests.experience import SMALL, feed


def batch_of(slots: list[int], ticket: int) -> Batch:
    blank: dict[str, Any] = dict.fromkeys(("obs", "action", "reward", "next_obs", "discount", "weight"), torch.zeros(0))
    return Batch(**blank, index=torch.tensor(slots), ticket=torch.full((len(slots),), ticket, dtype=torch.int32))


def test_a_draw_is_found_once_in_any_order_and_any_integers() -> None:
    outstanding = Outstanding()
    first, second = batch_of([3, 1], 5), batch_of([1, 3], 6)
    outstanding.put(first)
    outstanding.put(second)
    for drawn in (second, first):
        found = outstanding.take(drawn.index.to(torch.int32))
        assert isinstance(found, Batch)
        assert found.ticket is drawn.ticket
        assert torch.equal(found.index, drawn.index)
    slots = torch.tensor([3, 1])
    assert outstanding.take(slots) is slots
    assert len(outstanding) == 0


def test_several_draws_of_the_same_slots_are_checked_against_the_oldest() -> None:
    outstanding = Outstanding()
    oldest = batch_of([2], 5)
    for batch in (oldest, batch_of([2], 6)):
        outstanding.put(batch)
    assert [outstanding.take(torch.tensor([2])).ticket for _ in range(2)] == [oldest.ticket] * 2
    outstanding.put(batch_of([2], 7))
    assert outstanding.take(torch.tensor([2])).ticket.tolist() == [7]


def test_no_more_than_the_last_draws_are_kept() -> None:
    outstanding = Outstanding()
    for number in range(LIMIT + 3):
        outstanding.put(batch_of([number], number))
    assert len(outstanding) == LIMIT
    assert isinstance(outstanding.take(torch.tensor([2])), torch.Tensor)
    assert isinstance(outstanding.take(torch.tensor([3])), Batch)


def test_what_was_rewritten_since_is_skipped_by_an_update_with_slots_alone() -> None:
    memory, outstanding = PrioritizedMemory(4, **SMALL, alpha=1.0, epsilon=1e-9), Outstanding()
    feed(memory, 4)
    returned = []
    for first in (4, 6):
        outstanding.put(batch := memory.sample(32))
        returned.append(batch.index.numpy())
        feed(memory, 2, first=first)
    memory.update(outstanding.take(torch.from_numpy(returned[0])), torch.full((32,), 9.0))
    assert memory.ledger.tree.weight[0, :4].tolist() == [1.0] * 4
    memory.update(outstanding.take(torch.from_numpy(returned[1])), torch.full((32,), 5.0))
    assert memory.ledger.tree.weight[0, :4].tolist() == [5.0, 5.0, 1.0, 1.0]


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))], ids=["copy", "pickle"])
def test_copies_of_a_locked_lock_are_free_and_draws_are_kept(copied: Any) -> None:
    lock, outstanding = Lock(), Outstanding()
    outstanding.put(batch_of([4], 1))
    with lock, lock, copied(lock):
        pass
    found = copied(outstanding).take(torch.tensor([4]))
    assert isinstance(found, Batch)
    assert found.ticket is not None
    assert found.ticket.tolist() == [1]
