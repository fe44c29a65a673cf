"""Neighbour lists lose, gain and find members as plain loops would."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest
import torch

from crystalrl.backends import backend_for
from crystalrl.memory.neighbours.lists import Lists, grouped
from tests.conftest import computing_with

LANES, SLOTS, K = 2, 60, 5
CPU = torch.device("cpu")


def example(seed: int = 0, loops: ModuleType | None = None) -> Lists:
    """Lists of random length with random members, not themselves."""
    rng, lists = torch.Generator().manual_seed(seed), Lists(LANES, SLOTS, K, CPU, loops)
    for lane in range(LANES):
        for slot in range(SLOTS):
            count = int(torch.randint(0, K + 1, (), generator=rng))
            members = [j for j in torch.randperm(SLOTS, generator=rng).tolist() if j != slot][:count]
            lists.index[lane, slot, :count] = torch.tensor(members, dtype=torch.int32)
    return lists


def held(lists: Lists) -> list[list[list[int]]]:
    """Members of each list; −1 stands only at the end."""
    for mine in lists.index.flatten(0, 1).tolist():
        assert sorted(mine, key=lambda j: j < 0) == mine
    return [[[j for j in mine if j >= 0] for mine in lane] for lane in lists.index.tolist()]


@pytest.mark.parametrize("width", [SLOTS, 40])
@pytest.mark.parametrize("way", ["numba", "numpy"])
def test_removed_slots_leave_all_lists_and_the_rest_keeps_its_order(way: str, width: int) -> None:
    with computing_with(way):
        lists = example(loops=backend_for(CPU).graph)
    removed = torch.rand(LANES, width, generator=torch.Generator().manual_seed(1)) < 0.3
    gone = [{*removed[lane].nonzero()[:, 0].tolist(), *range(width, SLOTS)} for lane in range(LANES)]
    wanted = [
        [[] if i in gone[lane] else [j for j in mine if j not in gone[lane]] for i, mine in enumerate(each)]
        for lane, each in enumerate(held(lists))
    ]
    lists.remove(removed, width)
    assert held(lists) == wanted
    assert lists.lengths(width).tolist() == [[len(mine) for mine in each[:width]] for each in wanted]


def places(lane: torch.Tensor, slot: torch.Tensor, others: torch.Tensor) -> torch.Tensor:
    """Distances on a line, another order of the slots in each lane; multiples of 7 are never listed."""
    where = torch.stack([torch.randperm(SLOTS, generator=torch.Generator().manual_seed(k)) for k in range(LANES)])
    apart = where[lane].gather(1, others) - where[lane, slot][:, None]
    return (apart.abs() + 0.001 * others).float().masked_fill(others % 7 == 0, torch.inf)


@pytest.mark.parametrize("classes", [True, False])
def test_a_list_keeps_the_nearest_of_its_members_and_the_candidates(classes: bool) -> None:
    rng, lists = torch.Generator().manual_seed(2), example()
    lane, slot = torch.randint(0, LANES, (30,), generator=rng), torch.randperm(SLOTS, generator=rng)[:30]
    candidates, before = torch.randint(-1, SLOTS, (30, 9), generator=rng), held(lists)
    classify: Any = (lambda lane, slot, others: others % 2 == 0) if classes else None
    lists.offer(lane, slot, candidates, places, classify)
    after = held(lists)
    for row, (where, mine) in enumerate(zip(lane.tolist(), slot.tolist(), strict=True)):
        known = sorted({*before[where][mine], *candidates[row].tolist()} - {-1, mine})
        far = places(lane[[row]], slot[[row]], torch.tensor([known]))[0].tolist() if known else []
        near = [j for apart, j in sorted(zip(far, known, strict=True)) if apart < torch.inf]
        if classes:  # both share the places: the n-th of one class comes before the (n + 1)-th of the other
            even, odd = ([j for j in near if j % 2 == rest] for rest in (0, 1))
            rank = {j: n for each in (even, odd) for n, j in enumerate(each)}
            got = after[where][mine]
            assert len(got) == min(K, len(near))
            assert sorted(rank[j] for j in got) == sorted(rank.values())[:K]
        else:
            assert after[where][mine] == near[:K]
    untouched = {*range(SLOTS)} - {*slot.tolist()}
    assert all(after[0][i] == before[0][i] for i in untouched)


def test_offering_nothing_to_no_list_changes_nothing() -> None:
    lists = example()
    before, none = lists.index.clone(), torch.zeros(0, dtype=torch.int64)
    lists.offer(none, none, none.view(0, 3), places)
    assert torch.equal(lists.index, before)


@pytest.mark.parametrize("chunk", [7, 1 << 17])
def test_reverse_neighbours_are_the_lists_that_name_a_neighbour_of_a_new_experience(chunk: int) -> None:
    rng, lists = torch.Generator().manual_seed(3), example()
    lists.chunk = chunk
    lane, slot = torch.randint(0, LANES, (6,), generator=rng), torch.randperm(SLOTS, generator=rng)[:6]
    near, known = torch.randint(-1, SLOTS, (6, 3), generator=rng), held(lists)
    wanted = {
        (where, owner, new)
        for where, new, close in zip(lane.tolist(), slot.tolist(), near.tolist(), strict=True)
        for owner in range(SLOTS)
        if {*close} & {*known[where][owner]}
    }
    found = [
        pair
        for each in lists.reverse_neighbours(lane, slot, near, SLOTS)
        for pair in zip(*(x.tolist() for x in each), strict=True)
    ]
    assert len(found) == len(set(found))
    assert set(found) == wanted


def test_candidates_are_grouped_by_owner_and_only_so_many_are_kept() -> None:
    owner, candidate = torch.tensor([2, 2, 2, 5, 9, 9]), torch.tensor([7, 1, 3, 4, 8, 6])
    known, candidates = grouped(owner, candidate, 2)
    assert known.tolist() == [2, 5, 9]
    assert candidates.tolist() == [[7, 1], [4, -1], [8, 6]]
