"""Moves between phases, and evictions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from crystalrl import Batch, CrystalParams
from tests.memory.crystal.experience import by_reward, feed, memory_of

STILL: dict[str, Any] = {"sigma": 0.0, "interference": "none", "boost": False}


def ones(batch: Batch) -> torch.Tensor:
    return torch.ones_like(batch.reward)


def test_crystals_added_beyond_the_room_are_kept_by_chance_not_by_age() -> None:
    memory = memory_of(128, CrystalParams.repaired(**STILL, alpha=0.0))
    feed(memory, 100, crystallization=0.9)
    memory.consolidate(ones)
    kept = memory.ledger.birth[0, memory.experiences("crystal")["index"]]
    assert len(kept) == memory.params.caps(128)[2]
    assert 20 < float(kept.double().mean()) < 80


def test_a_frozen_store_takes_the_highest_c_and_leaves_the_rest_in_glass() -> None:
    params = CrystalParams.paper(alpha=0.3, sigma=0.0, interference="none", w1=1.0, w2=0.0, w3=0.0)
    memory = memory_of(64, params)
    room = params.caps(64)[2]
    feed(memory, 20, crystallization=0.69)
    report = memory.consolidate(lambda batch: 1 + batch.index.float())
    kept = memory.experiences("crystal")["index"].tolist()
    assert kept == list(range(20 - room, 20))
    assert report.values["refused"][0] == int((memory.ledger.c[0] > 0.7).sum()) - room
    for _ in range(5):
        memory.consolidate(lambda batch: 20 - batch.index.float())
    assert memory.experiences("crystal")["index"].tolist() == kept


def test_a_crystal_that_melts_becomes_glass_and_then_liquid_and_in_the_papers_reading_never() -> None:
    for params, wanted in ((CrystalParams.repaired(**STILL, alpha=0.0, leak=0.05), [3, 2, 1]), (None, [3])):
        mine = params or CrystalParams.paper(alpha=0.0, sigma=0.0, leak=0.05, interference="none")
        memory = memory_of(64, replace(mine, clock="calls"))
        feed(memory, 1, crystallization=0.71)
        seen = [3]
        for _ in range(40):
            memory.consolidate(ones)
            seen.append(int(memory.ledger.phase[0, 0]))
        assert list(dict.fromkeys(seen)) == wanted


def test_what_arrives_in_a_full_memory_of_the_paper_competes_by_utility_at_the_next_consolidation() -> None:
    """Algorithm 1 evicts the lowest U after all are evaluated, new ones included. Of 100 newcomers to the 400 best of
    4,100 alike experiences a tenth should stay; without spare slots they have replaced others before."""
    kept = {}
    for spare, slots in ((0.0, 400), (0.2, 500)):
        params = CrystalParams.paper(
            spare=spare, alpha=0.0, interference="none", capacity=(1, 0, 0), w2=0.0, scale="q95"
        )
        memory = memory_of(slots, params)
        for seed in range(41):
            feed(memory, 100, seed=seed)
            memory.consolidate(by_reward)
        numbers = memory.experiences()["number"]
        assert len(numbers) == 400
        kept[spare] = int((numbers >= 4000).sum())
    assert kept[0.2] <= 20
    assert kept[0.0] > 60
