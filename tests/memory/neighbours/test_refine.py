"""Searches through the graph of lists find what a comparison with all finds, or nearly."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
import pytest
import torch

from crystalrl import CrystalMemory, Transition
from crystalrl.memory.neighbours.index import Brute
from crystalrl.memory.neighbours.refine import Refiner
from crystalrl.memory.neighbours.steps import Trajectories
from crystalrl.memory.neighbours.tuning import GraphTuning, tuning_for
from tests.conftest import computing_with
from tests.memory.neighbours.walks import exact_neighbours, graph_of, memory_of, recall, refresh, successor_lists, walk

pytest.importorskip("faiss")
pytestmark = pytest.mark.usefixtures("small")


@pytest.fixture(params=[GraphTuning(), tuning_for(1500, "cpu")], ids=["index", "no index"])
def tuning(request: pytest.FixtureRequest) -> Any:
    return request.param


def refined(tuning: GraphTuning, slots: int = 1500) -> CrystalMemory:
    with computing_with("numba"):
        memory = memory_of(slots, time_unit=60)
    memory.neighbours.tuning = tuning
    walk(memory, slots // 10, 0)
    refresh(memory)
    return memory


Kind = TypeVar("Kind", bound=Refiner)


class Counting(Refiner):
    """Counts the queries of its index."""

    asked = 0

    def query(self, role: str, slots: torch.Tensor, starts: Any, k: int) -> Any:
        self.asked += len(slots)
        return super().query(role, slots, starts, k)


def refiner_of(memory: CrystalMemory, kind: type[Kind], every: int = 1) -> Kind:
    graph = graph_of(memory)
    assert graph.successor_lists is not None
    assert graph.backend.graph is not None
    assert not isinstance(graph.index, Brute)
    return kind(
        loops=graph.backend.graph, products=graph.backend.products, lists=graph.successor_lists, states=graph.states,
        index=graph.index, trajectories=Trajectories(memory.snapshot(), memory.spec.envs),
        tuning=replace(memory.neighbours.tuning, query_every=every), lane=0, turn=0, epsilon=float(graph.epsilon[0]),
    )  # fmt: skip


def share_of_exact(memory: CrystalMemory, slots: torch.Tensor) -> float:
    exact, mine = exact_neighbours(memory).index[0, slots], successor_lists(memory)[slots]
    return float((exact[:, :, None] == mine[:, None, :]).any(-1).float().mean())


def stored_in(memory: CrystalMemory) -> torch.Tensor:
    return (memory.ledger.phase[0] > 0).nonzero()[:, 0]


def test_lists_that_were_emptied_are_filled_with_the_nearest_again(tuning: GraphTuning) -> None:
    memory = refined(tuning)
    slots = stored_in(memory)[::5].contiguous()
    refiner = refiner_of(memory, Refiner)
    refiner.own[slots.numpy()] = -1
    assert share_of_exact(memory, slots) == 0
    refiner = refiner_of(memory, Refiner)
    close = refiner.fill(slots)
    assert share_of_exact(memory, slots) > 0.95
    state = graph_of(memory).states.vectors("obs", torch.arange(memory.ledger.used)[None])[0]
    for row, slot in enumerate(slots.tolist()[:50]):
        found = [j for j in close[row].tolist() if j >= 0]
        apart = (state[found] - state[slot]).norm(dim=-1)
        assert slot not in found
        assert torch.allclose(apart, apart.sort().values, atol=1e-6)


def test_renewed_lists_lose_their_wrong_members(tuning: GraphTuning) -> None:
    memory = refined(tuning)
    stored = stored_in(memory)
    slots = stored[:: len(stored) // 40]
    refiner = refiner_of(memory, Refiner)
    wrong = stored[torch.randperm(len(stored), generator=torch.Generator().manual_seed(0))[: refiner.own.shape[1]]]
    refiner.own[slots.numpy()] = wrong.numpy()
    assert share_of_exact(memory, slots) < 0.1
    refiner_of(memory, Refiner).renew(slots)
    assert share_of_exact(memory, slots) > 0.95


def test_a_new_slot_enters_the_lists_of_those_whose_successor_state_is_near(tuning: GraphTuning) -> None:
    memory = refined(tuning)
    lists = graph_of(memory).successor_lists
    assert lists is not None
    exact = exact_neighbours(memory).index[0]
    stored = stored_in(memory)
    new = stored[::50].contiguous()
    removed = torch.zeros(1, memory.ledger.used, dtype=torch.bool)
    removed[0, new] = True
    lists.remove(removed, memory.ledger.used)
    wanted = [(owner, slot) for slot in new.tolist() for owner in stored.tolist() if slot in exact[owner].tolist()]
    wanted = [(owner, slot) for owner, slot in wanted if owner not in new.tolist()]

    def named() -> float:
        index = successor_lists(memory)
        return sum(slot in index[owner].tolist() for owner, slot in wanted) / len(wanted)

    assert named() == 0
    refiner = refiner_of(memory, Refiner)
    refiner.insert(new, refiner.fill(new))
    assert named() > 0.85


def test_the_states_around_an_experience_are_the_nearest_to_its_own(tuning: GraphTuning) -> None:
    memory = refined(tuning)
    slots = stored_in(memory)[::20]
    refiner = refiner_of(memory, Refiner)
    found = refiner.around(slots, torch.full((len(slots), 1), -1, dtype=torch.int32).numpy())
    state = graph_of(memory).states.vectors("obs", torch.arange(memory.ledger.used)[None])[0]
    empty = memory.ledger.phase[0, : memory.ledger.used] == 0
    right = []
    for row, slot in enumerate(slots.tolist()):
        apart = (state - state[slot]).norm(dim=-1).masked_fill(empty, torch.inf)
        apart[slot] = torch.inf
        right.append(len({*apart.topk(10, largest=False).indices.tolist()} & {*found[row].tolist()}) / 10)
    assert sum(right) / len(right) > 0.9
    assert recall(memory) > 0.95


def wandering(rho: float, tuning: GraphTuning) -> CrystalMemory:
    """A memory of walks in 12 dimensions, or, with rho = 0, of noise, that is ready to keep lists."""
    memory, rng = CrystalMemory(3000, obs=(12,), action=4, seed=0, envs=5), np.random.default_rng(0)
    memory.neighbours.tuning = tuning
    state = rng.normal(size=(5, 12))
    for _ in range(400):
        follows = rho * state + (1 - rho**2) ** 0.5 * rng.normal(size=state.shape)
        memory.add(Transition(state, rng.integers(0, 4, 5), np.zeros(5), follows, np.zeros(5, bool)))
        state = follows
    refresh(memory)
    return memory


def test_searches_follow_trajectories_and_query_the_index_only_where_these_do_not_lead() -> None:
    """With query_every = 8, one in eight steps of walks asks the index; of noise, all do."""
    shares = []
    for rho in (0.98, 0.0):
        memory = wandering(rho, GraphTuning())
        slots = torch.arange(1600, 2000)
        graph_of(memory).successor_lists.index[0, slots] = -1  # type: ignore[union-attr]
        refiner = refiner_of(memory, Counting, every=8)
        refiner.fill(slots)
        shares.append(refiner.asked / len(slots))
        assert share_of_exact(memory, slots) > 0.95
    assert shares[0] < 0.25
    assert shares[1] > 0.9


def test_in_noise_a_comparison_with_all_finds_every_neighbour_of_new_slots_and_every_list_they_belong_in() -> None:
    memory = wandering(0.0, tuning_for(3000, "cpu"))
    lists, stored, new = graph_of(memory).successor_lists, stored_in(memory), torch.arange(1600, 1900)
    assert lists is not None
    removed = torch.zeros(1, memory.ledger.used, dtype=torch.bool)
    removed[0, new] = True
    lists.remove(removed, memory.ledger.used)
    refiner = refiner_of(memory, Refiner)
    close = refiner.fill(new)
    assert refiner.scattered
    assert share_of_exact(memory, new) > 0.999
    long = stored[(lists.index[0, stored] >= 0).sum(-1) >= memory.params.k]
    assert share_of_exact(memory, long) < 0.95
    refiner.insert(new, close)
    assert share_of_exact(memory, long) > 0.999
