"""The loops over neighbour lists do what plain Python does, and find what is near."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("numba")

from crystalrl.backends import numba_graph as loops

SLOTS, K, SIZE, ROOM = 120, 6, 3, 8


def scene(seed: int) -> tuple[Any, Any]:
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


def reversed_lists(lists: Any) -> dict[int, list[int]]:
    return {j: [i for i in range(SLOTS) if j in lists[i]] for j in range(SLOTS)}


def graph_of(lists: Any) -> tuple[Any, Any, Any]:
    start, hosts = np.empty(SLOTS + 1, np.int64), np.empty(int((lists >= 0).sum()), np.int32)
    loops.reverse(lists, start, hosts)
    return lists, start, hosts


@pytest.mark.parametrize("seed", range(5))
def test_every_slot_is_found_in_the_lists_in_which_it_stands(seed: int) -> None:
    lists, _ = scene(seed)
    _, start, hosts = graph_of(lists)
    for j, wanted in reversed_lists(lists).items():
        assert hosts[start[j] : start[j + 1]].tolist() == wanted


@pytest.mark.parametrize("seed", range(5))
def test_what_is_gone_is_taken_out_and_the_rest_keeps_its_order(seed: int) -> None:
    lists, _ = scene(seed)
    gone = np.random.default_rng(seed).random(SLOTS) < 0.2
    wanted = [[] if gone[i] else [j for j in lists[i] if j >= 0 and not gone[j]] for i in range(SLOTS)]
    loops.forget(lists, gone)
    assert [[j for j in each if j >= 0] for each in lists.tolist()] == wanted
    assert all(each == sorted(each, key=lambda j: j < 0) for each in lists.tolist())


def walked(lists: Any, hosts: Any, space: Any, me: int, starts: list[int], limits: Any) -> list[int]:
    """The walk of one slot, in plain Python."""
    most, few, turn, own = limits
    seen, looked = {me}, 0
    best: list[tuple[float, int]] = []
    entered: set[int] = set()

    def look(j: int) -> None:
        seen.add(j)
        best.append((apart(*space, me, j), j))
        best.sort()
        del best[ROOM:]

    for j in starts:
        if j >= 0 and j not in seen:
            look(j)
    member = me if own else None
    while looked < most:
        if member is None:
            member = next((j for _, j in best if j not in entered), None)
            if member is None:
                break
            entered.add(member)
        around = hosts[member]
        for x in range(min(few, len(around))):
            for j in lists[around[(turn + x) % len(around)]].tolist():
                if j >= 0 and j not in seen:
                    looked += 1
                    look(j)
        member = None
    return [j for _, j in best]


@pytest.mark.parametrize("limits", [(1000, 100, 0, True), (1000, 2, 3, False), (20, 2, 1, True), (0, 2, 1, False)])
@pytest.mark.parametrize("seed", range(3))
def test_a_walk_goes_through_the_company_of_the_nearest(seed: int, limits: Any) -> None:
    lists, space = scene(seed)
    rng = np.random.default_rng(seed)
    who, starts = rng.permutation(SLOTS)[:40], rng.integers(-1, SLOTS, (40, 4)).astype(np.int32)
    out, hosts = np.empty((40, ROOM), np.int32), reversed_lists(lists)
    loops.walk(graph_of(lists), space, who, starts, limits, out)
    for p, me in enumerate(who.tolist()):
        wanted = walked(lists, hosts, space, me, starts[p].tolist(), limits)
        assert out[p].tolist() == wanted + [-1] * (ROOM - len(wanted))


@pytest.mark.parametrize("seed", range(5))
def test_newcomers_enter_the_lists_in_which_their_neighbours_stand_if_they_are_nearer(seed: int) -> None:
    lists, space = scene(seed)
    rng = np.random.default_rng(seed)
    new, hints = rng.permutation(SLOTS)[:30], rng.integers(-1, SLOTS, (30, 4)).astype(np.int32)
    hosts, wanted = reversed_lists(lists), [[j for j in each if j >= 0] for each in lists.tolist()]
    for guest, named in zip(new.tolist(), hints.tolist(), strict=True):
        for host in {h for hint in named if hint >= 0 for h in hosts[hint]} - {guest}:
            mine = sorted({*wanted[host], guest}, key=lambda j: apart(*space, host, j))
            if not wanted[host] or mine[-1] != guest:  # not farther than the last
                wanted[host] = mine[:K]
    loops.introduce(graph_of(lists), space, new, hints)
    assert [[j for j in each if j >= 0] for each in lists.tolist()] == wanted
