"""The loops over neighbour lists do what plain Python does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("numba")

from crystalrl.backends import numba_graph as loops

SLOTS, K, SIZE, ROOM = 120, 6, 3, 8


def example(seed: int) -> tuple[Any, Any]:
    """Lists of random length with random members, not themselves; points and states."""
    rng = np.random.default_rng(seed)
    lists = np.full((SLOTS, K), -1, np.int32)
    points, states = rng.normal(size=(2, SLOTS, SIZE)).astype(np.float32)
    scale = np.array([1.0, 2.0, 0.5], np.float32)
    for i in range(SLOTS):
        members = rng.choice([j for j in range(SLOTS) if j != i], rng.integers(0, K + 1), replace=False)
        lists[i, : len(members)] = sorted(members, key=lambda j: apart(points, states, scale, i, j))
    return lists, (points, states, scale)


def apart(points: Any, states: Any, scale: Any, i: int, j: int) -> float:
    return float((((states[j] - points[i]) * scale).astype(np.float64) ** 2).sum())


def rows_of(space: Any) -> Any:
    """The same as the loops take it: parts of wider rows."""
    points, states, scale = space
    rows = np.concatenate([np.full((SLOTS, 2), np.nan, np.float32), points, states], 1)
    return (rows, 2), (rows, 2 + SIZE), scale


def reversed_lists(lists: Any) -> dict[int, list[int]]:
    return {j: [i for i in range(SLOTS) if j in lists[i]] for j in range(SLOTS)}


def graph_of(lists: Any) -> tuple[Any, Any, Any]:
    start, owners = np.empty(SLOTS + 1, np.int64), np.empty(int((lists >= 0).sum()), np.int32)
    loops.fill_reverse(lists, start, owners)
    return lists, start, owners


@pytest.mark.parametrize("seed", range(5))
def test_the_reverse_neighbours_of_a_slot_are_the_lists_that_name_it(seed: int) -> None:
    lists, _ = example(seed)
    _, start, owners = graph_of(lists)
    for j, wanted in reversed_lists(lists).items():
        assert owners[start[j] : start[j + 1]].tolist() == wanted


@pytest.mark.parametrize("seed", range(5))
def test_removed_slots_are_taken_out_and_the_rest_keeps_its_order(seed: int) -> None:
    lists, _ = example(seed)
    removed = np.random.default_rng(seed).random(SLOTS) < 0.2
    wanted = [[] if removed[i] else [j for j in lists[i] if j >= 0 and not removed[j]] for i in range(SLOTS)]
    loops.remove(lists, removed)
    assert [[j for j in each if j >= 0] for each in lists.tolist()] == wanted
    assert all(each == sorted(each, key=lambda j: j < 0) for each in lists.tolist())


def searched(lists: Any, owners: Any, space: Any, me: int, starts: list[int], limits: Any) -> list[int]:
    """The search of one slot, in plain Python."""
    most, few, turn, own = limits
    seen, visits = {me}, 0
    best: list[tuple[float, int]] = []
    expanded: set[int] = set()

    def visit(j: int) -> None:
        seen.add(j)
        best.append((apart(*space, me, j), j))
        best.sort()
        del best[ROOM:]

    for j in starts:
        if j >= 0 and j not in seen:
            visit(j)
    member = me if own else None
    while visits < most:
        if member is None:
            member = next((j for _, j in best if j not in expanded), None)
            if member is None:
                break
            expanded.add(member)
        around = owners[member]
        for x in range(min(few, len(around))):
            for j in lists[around[(turn + x) % len(around)]].tolist():
                if j >= 0 and j not in seen:
                    visits += 1
                    visit(j)
        member = None
    return [j for _, j in best]


@pytest.mark.parametrize("limits", [(1000, 100, 0, True), (1000, 2, 3, False), (20, 2, 1, True), (0, 2, 1, False)])
@pytest.mark.parametrize("seed", range(3))
def test_a_search_expands_the_nearest_state_first(seed: int, limits: Any) -> None:
    lists, space = example(seed)
    rng = np.random.default_rng(seed)
    slots, starts = rng.permutation(SLOTS)[:40], rng.integers(-1, SLOTS, (40, 4)).astype(np.int32)
    out, owners = np.empty((40, ROOM), np.int32), reversed_lists(lists)
    before = np.array([rng.integers(-1, p) for p in range(40)])
    loops.search(graph_of(lists), rows_of(space), slots, starts, before, limits, out)
    for p, me in enumerate(slots.tolist()):
        given = starts[p].tolist() + (out[before[p]].tolist() if before[p] >= 0 else [])
        wanted = searched(lists, owners, space, me, given, limits)
        assert out[p].tolist() == wanted + [-1] * (ROOM - len(wanted))


@pytest.mark.parametrize("seed", range(5))
def test_new_slots_enter_the_lists_that_name_their_neighbours_if_they_are_nearer_than_the_last(seed: int) -> None:
    lists, space = example(seed)
    rng = np.random.default_rng(seed)
    new, hints = rng.permutation(SLOTS)[:30], rng.integers(-1, SLOTS, (30, 4)).astype(np.int32)
    owners, wanted = reversed_lists(lists), [[j for j in each if j >= 0] for each in lists.tolist()]
    for slot, named in zip(new.tolist(), hints.tolist(), strict=True):
        for owner in {i for hint in named if hint >= 0 for i in owners[hint]} - {slot}:
            mine = sorted({*wanted[owner], slot}, key=lambda j: apart(*space, owner, j))
            if not wanted[owner] or mine[-1] != slot:  # not farther than the last
                wanted[owner] = mine[:K]
    loops.insert(graph_of(lists), rows_of(space), new, hints)
    assert [[j for j in each if j >= 0] for each in lists.tolist()] == wanted


def test_distances_are_those_of_each_point_to_the_named_state_and_0_between_equal_ones() -> None:
    _, (points, states, scale) = example(0)
    others, out = np.random.default_rng(0).permutation(SLOTS), np.empty(SLOTS, np.float32)
    points[::3] = states[others[::3]]
    loops.distances(rows_of((points, states, scale)), others, out)
    wanted = [apart(points, states, scale, i, j) ** 0.5 for i, j in enumerate(others.tolist())]
    assert np.allclose(out, wanted, rtol=1e-6)
    assert (out[::3] == 0).all()
