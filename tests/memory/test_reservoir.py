"""Reservoir replay: which experiences are kept, and what a batch is made of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats

from crystalrl import ReservoirMemory, Transition
from tests.experience import SMALL, feed, numbers_of, simple

LEAST_P = 1e-3


def reservoir_run(capacity: int, recent: float, given: int, seeds: int) -> ReservoirMemory:
    """Many seeds as lanes, all given the steps 0, 1, 2, …"""
    memory = ReservoirMemory(capacity, **SMALL, recent=recent, lanes=seeds)
    for number in range(given):
        t = simple(number)
        fields = (np.broadcast_to(x, (seeds, 1, *np.shape(x))) for x in (t.obs, t.action, t.reward, t.next_obs))
        memory.add(Transition(*fields, False))
    return memory


@pytest.mark.parametrize(("recent", "given"), [(0.5, 60), (0.25, 200), (0.0, 60), (0.0, 21)])
def test_every_older_experience_is_equally_likely_to_be_kept(recent: float, given: int) -> None:
    capacity, seeds = 20, 3_000
    memory = reservoir_run(capacity, recent, given, seeds)
    window = round(recent * capacity)
    numbers = memory.arena.unpack(memory.arena.rows)["obs"][..., 0].numpy().astype(int)
    seen = np.bincount(numbers.reshape(-1), minlength=given)
    assert (seen[given - window :] == seeds).all()
    older = seen[: given - window]
    room, offered = capacity - window, given - window
    assert older.sum() == seeds * room
    share = room / offered
    spread = ((older - seeds * share) ** 2).sum() / (seeds * share * (1 - share)) * (offered - 1) / offered
    assert stats.chi2.sf(spread, offered - 1) > LEAST_P
    assert stats.chi2.cdf(spread, offered - 1) > LEAST_P


def test_pairs_of_older_experiences_are_kept_together_as_often_as_any_other_pair() -> None:
    seeds, given = 6_000, 12
    memory = reservoir_run(4, 0.0, given, seeds)
    numbers = memory.arena.unpack(memory.arena.rows)["obs"][..., 0].numpy().astype(int)
    together = np.zeros((given, given))
    for row in numbers:
        together[np.ix_(row, row)] += 1
    pairs = together[np.triu_indices(given, 1)]
    probability = (4 * 3) / (given * (given - 1))
    z = (pairs - seeds * probability) / np.sqrt(seeds * probability * (1 - probability))
    assert abs(z).max() < 4


@pytest.mark.parametrize("recent", [0.1, 0.5, 0.9, 1.0])
def test_the_recent_window_is_exact_at_every_step(recent: float) -> None:
    memory = ReservoirMemory(10, **SMALL, recent=recent)
    window = round(10 * recent)
    for number in range(50):
        memory.add(simple(number))
        held = numbers_of(memory)
        assert len(set(held)) == len(held) == min(number + 1, 10)
        assert set(range(max(0, number + 1 - window), number + 1)) <= set(held)
        memory.check()


def test_recent_one_is_first_in_first_out() -> None:
    memory = ReservoirMemory(10, **SMALL, recent=1.0)
    feed(memory, 47)
    assert sorted(numbers_of(memory)) == list(range(37, 47))
    assert set(memory.sample(10).reward.tolist()) <= set(range(37, 47))


def test_recent_zero_tells_which_newcomers_were_not_kept() -> None:
    memory = ReservoirMemory(10, **SMALL, recent=0.0)
    slots = [int(memory.add(simple(k))) for k in range(200)]
    assert slots[:10] == list(range(10))
    kept = sum(slot >= 0 for slot in slots[10:])
    assert 10 < kept < 60
    last = {slot: number for number, slot in enumerate(slots) if slot >= 0}
    assert numbers_of(memory) == [last[slot] for slot in range(10)]


@pytest.mark.parametrize("recent_batch", [0.0, 0.3, 0.5, 1.0])
def test_the_batch_holds_the_declared_share_of_recent_experiences(recent_batch: float) -> None:
    memory = ReservoirMemory(40, **SMALL, recent=0.5, recent_batch=recent_batch)
    feed(memory, 200)
    for size in (1, 7, 40):
        batch = memory.sample(size)
        assert int((batch.reward >= 180).sum()) == round(recent_batch * size)
        assert batch.weight.tolist() == [1.0] * size


def test_all_of_the_batch_is_recent_while_there_is_nothing_older() -> None:
    memory = ReservoirMemory(20, **SMALL, recent=0.5, recent_batch=0.0)
    feed(memory, 10)
    assert set(memory.sample(20).index.tolist()) <= set(range(10))
    feed(memory, 1, first=10)
    assert set(memory.sample(20).reward.tolist()) == {0.0}


def test_within_each_part_draws_are_uniform() -> None:
    memory = ReservoirMemory(30, **SMALL, recent=0.5, recent_batch=0.4)
    feed(memory, 500)
    held = set(numbers_of(memory))
    seen: dict[int, int] = dict.fromkeys(held, 0)
    for _ in range(1_000):
        for number in memory.sample(30).reward.tolist():
            seen[int(number)] += 1
    recent = [seen[n] for n in held if n >= 485]
    older = [seen[n] for n in held if n < 485]
    assert (sum(recent), sum(older)) == (12_000, 18_000)
    assert stats.chisquare(recent).pvalue > LEAST_P
    assert stats.chisquare(older).pvalue > LEAST_P


def test_check_names_a_reservoir_whose_lists_lost_a_slot() -> None:
    memory = ReservoirMemory(10, **SMALL)
    feed(memory, 20)
    memory.ledger.reserved[0, 0] = memory.ledger.reserved[0, 1]
    with pytest.raises(AssertionError, match="reservoir, lane 0"):
        memory.check()


@pytest.mark.parametrize("recent", [0.0, 0.3, 0.5, 1.0])
def test_one_new_experience_is_allocated_as_many_are(recent: float) -> None:
    one, many = (ReservoirMemory(50, obs=(1,), action=3, seed=3, recent=recent) for _ in range(2))
    for number in range(700):
        here = Transition(np.array([number], np.float32), number % 3, float(number), np.zeros(1, np.float32), False)
        assert int(one.add(here)) == int(many.add(here, valid=True))  # a mask takes the general path
    assert torch.equal(one.arena.rows, many.arena.rows)
    for name in ("recent", "reserved"):  # except for the spare column
        assert torch.equal(getattr(one.ledger, name)[:, :-1], getattr(many.ledger, name)[:, :-1])


def test_repr_names_the_shares() -> None:
    assert "recent=0.25" in repr(ReservoirMemory(5, **SMALL, recent=0.25))


REFUSED: list[tuple[Callable[[], Any], str]] = [
    (lambda: ReservoirMemory(5, **SMALL, recent=1.01), "recent: wanted a number in .0, 1., got 1.01"),
    (lambda: ReservoirMemory(5, **SMALL, recent_batch=-1), "recent_batch.*got -1"),
]


@pytest.mark.parametrize(("build", "message"), REFUSED)
def test_parameters_out_of_range_are_refused(build: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build()
