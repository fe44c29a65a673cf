"""Neighbour lists that are kept are as good as neighbours computed from all pairs."""

from __future__ import annotations

import pytest
import torch

from crystalrl import CrystalMemory
from crystalrl.memory.neighbours.index import Brute, Ivf
from crystalrl.memory.neighbours.tuning import GraphTuning
from tests.conftest import computing_with
from tests.memory.neighbours.walks import (
    critic,
    exact_neighbours,
    graph_of,
    memory_of,
    recall,
    refresh,
    successor_lists,
    walk,
)

pytest.importorskip("faiss")


def check_lists(memory: CrystalMemory) -> None:
    graph = graph_of(memory)
    for lists in (graph.successor_lists, graph.similar_lists):
        assert lists is not None
        index = lists.index[0].to(torch.int64)
        there = index >= 0
        assert not (there[:, 1:] & ~there[:, :-1]).any()
        assert not (index == torch.arange(len(index))[:, None]).any()
        assert (memory.ledger.phase[0][index.clamp_min(0)] > 0)[there].all()
        ordered = index.masked_fill(~there, -1).sort(-1).values
        assert not ((ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] >= 0)).any()


@pytest.mark.usefixtures("small")
def test_lists_that_all_query_an_exact_index_are_the_exact_neighbours() -> None:
    """As on CUDA: the index compares with all, and in a small memory every list is renewed each time."""
    memory = memory_of(600)
    memory.neighbours.tuning = GraphTuning(index="brute")
    walk(memory, 100, 0)
    refresh(memory)
    check_lists(memory)
    exact = exact_neighbours(memory)
    used, stored = memory.ledger.used, memory.ledger.phase[0, : memory.ledger.used] > 0
    every = torch.arange(used)[None]
    state, successor = (graph_of(memory).states.vectors(role, every)[0] for role in ("obs", "next_obs"))
    for mine in (exact.index[0], successor_lists(memory)):
        apart = (successor[:, None] - state[mine]).norm(dim=-1)[stored]
        assert torch.allclose(apart, apart.sort(-1).values)
        wanted = (successor[:, None] - state[exact.index[0]]).norm(dim=-1)[stored]
        assert torch.allclose(apart, wanted, atol=1e-5)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("index", ["ivf", pytest.param("brute", marks=pytest.mark.slow)])
def test_recall_stays_high_when_experiences_come_and_go(index: str) -> None:
    """A fifth of the memory is replaced over and over, 2 % at a time; few lists are renewed."""
    memory = memory_of(3000, time_unit=60)
    memory.neighbours.tuning = GraphTuning(index=index, min_budget=16)  # type: ignore[arg-type]
    walk(memory, 300, 0)
    memory.consolidate(critic)
    assert isinstance(graph_of(memory).index, Ivf if index == "ivf" else Brute)
    for turn in range(50):
        walk(memory, 3, turn + 1)
    assert recall(memory) > 0.95
    memory.check()


@pytest.mark.usefixtures("narrow")
@pytest.mark.parametrize("index", ["ivf", "brute"])
@pytest.mark.parametrize("compiled", [True, False])
def test_slots_beyond_the_last_block_in_use_are_forgotten(index: str, compiled: bool) -> None:
    """Eviction may empty the last blocks: then a consolidation sees fewer slots than the lists and the index name."""
    with computing_with("numba" if compiled else "numpy"):
        memory = memory_of(600, time_unit=60)
    memory.neighbours.tuning = GraphTuning(index=index)  # type: ignore[arg-type]
    walk(memory, 30, 0)
    memory.consolidate(critic)
    assert memory.ledger.used > 256
    phase = memory.ledger.phase
    phase[:, 256:] = 0
    memory.ledger.relabel(phase, torch.zeros_like(phase, dtype=torch.bool))
    refresh(memory)
    check_lists(memory)
    graph = graph_of(memory)
    assert graph.successor_lists is not None
    assert int(graph.successor_lists.index.max()) < 256
    assert int(graph.index.state(0).ids.max()) < 256
    assert recall(memory) > 0.99
