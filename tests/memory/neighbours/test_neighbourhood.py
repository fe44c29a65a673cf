"""Lanes search all pairs or keep lists, each by its own size, and see what they would see alone."""

from __future__ import annotations

import sys

import pytest
import torch

from crystalrl import CrystalMemory
from crystalrl.memory.neighbours.index import have_faiss
from crystalrl.memory.neighbours.tuning import GraphTuning
from tests.memory.crystal.test_lanes import CASES, built, life, part, same
from tests.memory.neighbours.walks import critic, graph_of, memory_of, refresh, uneven, uneven_memory, walk

pytest.importorskip("faiss")


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(
    "case", ["anchored", "paper", pytest.param("default", marks=pytest.mark.slow), "every episode, anchored, slices"]
)
def test_a_lane_equals_its_seed_alone(case: str) -> None:
    together = life(built(CASES[case], 3, 5, 2), None, 2)
    for lane in range(3):
        alone = life(built(CASES[case], 1, 5 + lane, 2), lane, 2)
        for number, (one, other) in enumerate(zip(alone, together, strict=True)):
            assert same(part(one, 0), part(other, lane)), (lane, number)


@pytest.mark.usefixtures("narrow")
def test_a_lane_that_fills_unevenly_equals_its_seed_alone() -> None:
    """The first changes to lists, then the second, while the last stays with all pairs."""
    memory = uneven_memory(3, 7)
    together = uneven(memory, None, range(400))
    assert graph_of(memory).active.tolist() == [True, True, False]
    for lane in range(3):
        alone = uneven(uneven_memory(1, 7 + lane), lane, range(400))
        for one, other in zip(alone, together, strict=True):
            assert torch.equal(one[0], other[lane])


@pytest.mark.usefixtures("small")
def test_without_faiss_all_pairs_are_compared_and_a_warning_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    memory, small = memory_of(100), memory_of(100)
    memory.neighbours.tuning = GraphTuning()
    for each in (memory, small):
        walk(each, 4, 0)
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "faiss", None)  # as if it were not installed
        with pytest.warns(UserWarning, match="faiss-cpu"):
            memory.consolidate(critic)
        small.consolidate(critic)
    assert memory.neighbours.graph is None
    assert small.neighbours.graph is not None, "small memories need no index"
    assert have_faiss()


@pytest.mark.slow
def test_phases_are_those_of_the_exact_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """100 consolidations of a stream whose rewards turn over four times. An experience that only one of the two paths
    evicted counts as disagreement, over all experiences that ever arrived.
    """
    ended = []
    for exact in (True, False):
        monkeypatch.setattr(CrystalMemory, "exact_up_to", {"cpu": 10**9 if exact else 1000})
        memory = memory_of(5000)
        walk(memory, 2500, 0, turning=625)
        assert (memory.neighbours.graph is None) == exact
        phases = torch.zeros(int(memory.ledger.number[0]), dtype=torch.uint8)
        stored = memory.ledger.phase[0] > 0
        phases[memory.ledger.birth[0, stored]] = memory.ledger.phase[0, stored]
        ended.append(phases)
    assert (ended[0] == ended[1]).float().mean() > 0.96
    both = (ended[0] > 0) & (ended[1] > 0)
    assert (ended[0] == ended[1])[both].float().mean() > 0.88


@pytest.mark.usefixtures("narrow")
def test_distances_of_successor_states_are_euclidean_in_deviations_with_lists_and_without() -> None:
    """In units of the deviations that each lane used: those of its lists, or those of everything it stores now."""
    memory = uneven_memory(3, 7)
    uneven(memory, None, range(190))
    nearby = refresh(memory)
    graph, view = graph_of(memory), nearby.view
    assert graph.active.tolist() == [True, True, False]
    other = torch.randint(0, view.slots, (3, view.slots), generator=torch.Generator().manual_seed(0))
    found = nearby.successor_distance(other)
    for lane in range(3):
        stored = view.fields["obs"][lane, view.occupied[lane]]
        deviation = graph.states.deviation[lane, 0] if graph.active[lane] else stored.std(0, unbiased=False)
        gap = view.fields["obs"][lane][other[lane]] - view.fields["next_obs"][lane]
        torch.testing.assert_close(found[lane], (gap / deviation).norm(dim=-1))
