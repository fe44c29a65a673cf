"""Lists of similar experiences are the same from compiled loops as from torch."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from crystalrl.memory.neighbours.similar import SimilarLists
from tests.conftest import computing_with
from tests.memory.neighbours.walks import graph_of, memory_of, refresh, walk

pytest.importorskip("faiss")
pytest.importorskip("numba")
pytestmark = pytest.mark.usefixtures("small")


@pytest.mark.parametrize("rule", ["fresh_mean", "newer_majority", "exists"])
def test_loops_choose_the_same_similar_experiences_as_torch(rule: Any) -> None:
    with computing_with("numba"):
        memory = memory_of(600, time_unit=60, interference=rule)
    walk(memory, 60, 0)
    refresh(memory)
    graph, view = graph_of(memory), memory.snapshot()
    assert graph.similar_lists is not None
    assert graph.backend.similar is not None
    slots = view.occupied[0].nonzero()[::3, 0]
    near = slots[torch.randint(len(slots), (len(slots), 40), generator=torch.Generator().manual_seed(0))]
    graph.epsilon *= 2  # so that more are similar than are listed
    before = graph.similar_lists.index.clone()
    lists = SimilarLists(graph.backend.similar, graph.similar_lists, graph.states, 0, graph.epsilon, *graph._compared)
    lists.offer(slots, near.numpy().astype("int32"))
    mine = graph.similar_lists.index.clone()
    graph.similar_lists.index.copy_(before)
    graph._offer(graph.similar_lists, view, torch.zeros_like(slots), slots, near)
    assert torch.equal(mine[0].sort(-1).values, graph.similar_lists.index[0].sort(-1).values)
    assert not torch.equal(mine, before)
