"""What the numbers of neighbour lists change: their quality, their size, the work for them."""

from __future__ import annotations

from types import NoneType

import pytest

from crystalrl.memory.neighbours.index import Brute, Ivf
from crystalrl.memory.neighbours.tuning import WITHOUT_INDEX, GraphTuning, tuning_for
from tests.memory.neighbours.walks import critic, graph_of, memory_of, recall, walk

pytest.importorskip("faiss")


@pytest.mark.usefixtures("small")
def test_recall_would_fall_if_new_experiences_were_not_inserted_into_lists() -> None:
    memory = memory_of(3000, time_unit=60)
    memory.neighbours.tuning = GraphTuning(min_budget=16, insert=False)
    walk(memory, 300, 0)
    for turn in range(50):
        walk(memory, 3, turn + 1)
    assert recall(memory) < 0.93


@pytest.mark.usefixtures("small")
def test_more_lists_are_renewed_with_a_larger_budget_and_recall_rises() -> None:
    found = []
    for budget in (1, 1024):
        memory = memory_of(1500, time_unit=60)
        memory.neighbours.tuning = GraphTuning(
            min_budget=budget, max_budget=budget, insert=False, short_lists={"cpu": 0}
        )
        walk(memory, 150, 0)
        for turn in range(20):
            walk(memory, 3, turn + 1)
        found.append(recall(memory))
    assert found[1] > found[0] + 0.1


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(("index", "kind"), [("auto", Ivf), ("ivf", Ivf), ("brute", Brute), ("none", NoneType)])
def test_lists_have_the_places_and_the_index_that_were_chosen(index: str, kind: type) -> None:
    memory = memory_of(200)
    memory.neighbours.tuning = GraphTuning(index=index, spare=5, similar=7)  # type: ignore[arg-type]
    walk(memory, 5, 0)
    memory.consolidate(critic)
    graph = graph_of(memory)
    assert graph.successor_lists is not None
    assert graph.similar_lists is not None
    assert (graph.successor_lists.k, graph.similar_lists.k) == (memory.params.k + 5, 7)
    assert type(graph.index) is kind


def test_small_memories_on_cpu_have_no_index_but_longer_lists() -> None:
    small = tuning_for(WITHOUT_INDEX, "cpu")
    assert small.index == "none"
    large = tuning_for(WITHOUT_INDEX + 1, "cpu")
    assert large.index == "auto"
    assert small.spare > large.spare > GraphTuning.spare
    assert tuning_for(WITHOUT_INDEX, "cuda") == GraphTuning()
