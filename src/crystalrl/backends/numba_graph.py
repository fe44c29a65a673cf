"""Numba loops over neighbour lists, and searches through the graph they form. See `memory.neighbours.refine`.

graph = (lists i32[N, K], start i64[N + 1], reverse i32[M]): reverse[start[j]:start[j + 1]] are the reverse neighbours
of slot j, the slots whose lists contain it.
space = (points, states, scale f32[D]): the list of slot i contains states near point i. points and states are (rows
[N, S], first): a vector is a part of a row, D numbers from the first. (A view of these parts has no stride of one that
the compiler knows of, so it would read the numbers one by one.)
"""

from __future__ import annotations

from typing import Any

import numpy as np

from crystalrl.backends.numba_jit import fast, jit

UNKNOWN = np.float32(np.inf)


@jit
def fill_reverse(lists: Any, start: Any, reverse: Any) -> None:
    """Fill start and reverse of a graph from its lists."""
    start[:] = 0
    for i in range(lists.shape[0]):
        for j in lists[i]:
            if j >= 0:
                start[j + 1] += 1
    for j in range(len(start) - 1):
        start[j + 1] += start[j]
    next_free = start[:-1].copy()
    for i in range(lists.shape[0]):
        for j in lists[i]:
            if j >= 0:
                reverse[next_free[j]] = i
                next_free[j] += 1


@jit
def remove(lists: Any, removed: Any) -> None:
    """Take the removed slots, bool[W], and those beyond W out of the lists; later entries move up. Their own lists are
    cleared."""
    for i in range(lists.shape[0]):
        kept = 0
        for x in range(lists.shape[1]):
            j = lists[i, x]
            if j < 0:
                break
            if j < len(removed) and not removed[j] and not removed[i]:
                lists[i, kept] = j
                kept += 1
        for x in range(kept, lists.shape[1]):
            if lists[i, x] < 0:
                break
            lists[i, x] = -1


@fast
def _squared_distance(point: Any, states: Any, j: int, scale: Any) -> Any:
    """Squared distance of a point (already scaled) to the state of slot j."""
    rows, first = states
    state, total = rows[j, first : first + len(scale)], np.float32(0)
    for d in range(len(scale)):
        gap = np.float32(state[d]) * scale[d] - point[d]
        total += gap * gap
    return total


@fast
def _between(points: Any, i: int, states: Any, j: int, scale: Any) -> Any:
    """Squared distance of the point of slot i to the state of slot j."""
    rows, first = points
    others, begin = states
    point, state, total = rows[i, first : first + len(scale)], others[j, begin : begin + len(scale)], np.float32(0)
    for d in range(len(scale)):
        gap = (np.float32(state[d]) - np.float32(point[d])) * scale[d]
        total += gap * gap
    return total


@jit
def distances(space: Any, others: Any, out: Any) -> None:
    """Distance of each point to the state of slot others i64[W] → out f32[W]."""
    points, states, scale = space
    for i in range(len(others)):
        out[i] = np.sqrt(_between(points, i, states, others[i], scale))


@jit
def _load(points: Any, i: int, scale: Any, out: Any) -> None:
    """The scaled point of slot i → out f32[D]."""
    rows, first = points
    point = rows[i, first : first + len(scale)]
    for d in range(len(scale)):
        out[d] = np.float32(point[d]) * scale[d]


@jit
def _keep_if_near(names: Any, far: Any, pending: Any, held: int, j: int, apart: Any) -> int:
    """Insert slot j into names, nearest first, if it is near enough; returns the new number of names."""
    if held == len(names) and apart >= far[held - 1]:
        return held
    at = min(held, len(names) - 1)
    while at > 0 and far[at - 1] > apart:
        names[at], far[at], pending[at] = names[at - 1], far[at - 1], pending[at - 1]
        at -= 1
    names[at], far[at], pending[at] = j, apart, True
    return min(held + 1, len(names))


@jit
def search(graph: Any, space: Any, slots: Any, starts: Any, before: Any, limits: Any, out: Any) -> None:
    """Greedy graph search: states nearest to the points of slots i64[P] → out i32[P, R], nearest first, −1 for none;
    never the slot itself.

    It starts from starts i32[P, T] (−1: none), from what was found for an earlier row, before i64[P] (−1: none), and,
    if `own`, from the slot itself. It expands the nearest state not yet expanded: it visits the members of up to `few`
    lists that contain it. It ends when every state found is expanded, or after `most` visits. limits = (most, few,
    turn, own); `turn` changes which lists come first.
    """
    lists, start, reverse = graph
    points, states, scale = space
    most, few, turn, own = limits
    far, pending = np.empty(out.shape[1], np.float32), np.empty(out.shape[1], np.bool_)
    point, seen = np.empty(len(scale), np.float32), np.zeros(lists.shape[0], np.int32)
    nothing = np.empty(0, np.int32)
    for p in range(len(slots)):
        slot, held, visits, names = slots[p], 0, 0, out[p]
        seen[slot] = p + 1
        names[:] = -1
        _load(points, slot, scale, point)
        for given in (starts[p], out[before[p]] if before[p] >= 0 else nothing):
            for j in given:
                if j >= 0 and seen[j] != p + 1:
                    seen[j] = p + 1
                    held = _keep_if_near(names, far, pending, held, j, _squared_distance(point, states, j, scale))
        expanded, at = slot, -1
        if not own:
            expanded, at = -1, 0
        while visits < most:
            if at >= 0:
                while at < held and not pending[at]:
                    at += 1
                if at >= held:
                    break
                pending[at] = False
                expanded = names[at]
            count = start[expanded + 1] - start[expanded]
            for x in range(min(few, count)):
                owner = reverse[start[expanded] + (turn + x) % count]
                for j in lists[owner]:
                    if j < 0:
                        break
                    if seen[j] != p + 1:
                        seen[j] = p + 1
                        visits += 1
                        held = _keep_if_near(names, far, pending, held, j, _squared_distance(point, states, j, scale))
            at = 0


@jit
def insert(graph: Any, space: Any, new: Any, hints: Any) -> None:
    """Offer slots new i64[P] to the lists that contain their hints i32[P, T] (−1: none); each list keeps the nearest.

    A list accepts no slot farther than its last, even if it has room. So it holds the nearest ones, however many it has
    lost, and its length shows when to renew it. Only the lists change, not the reverse neighbours: new slots are not
    found through each other.
    """
    lists, start, reverse = graph
    seen, last = np.zeros(lists.shape[0], np.int32), np.full(lists.shape[0], UNKNOWN, np.float32)
    for p in range(len(new)):
        slot = new[p]
        seen[slot] = p + 1
        for hint in hints[p]:
            if hint < 0:
                continue
            for owner in reverse[start[hint] : start[hint + 1]]:
                if seen[owner] != p + 1:
                    seen[owner] = p + 1
                    _insert(lists[owner], space, owner, slot, last)


@jit
def _insert(names: Any, space: Any, owner: int, slot: int, last: Any) -> None:
    """Offer a slot to the list of its owner; last[owner]: squared distance of its last entry, if known."""
    points, states, scale = space
    apart = _between(points, owner, states, slot, scale)
    if apart >= last[owner]:
        return
    held = 0
    while held < len(names) and names[held] >= 0:
        if names[held] == slot:
            return
        held += 1
    if held > 0:
        last[owner] = _between(points, owner, states, names[held - 1], scale)
        if apart >= last[owner]:
            return
    at, end = 0, held
    while at < end:
        middle = (at + end) // 2
        if _between(points, owner, states, names[middle], scale) > apart:
            end = middle
        else:
            at = middle + 1
    for x in range(min(held, len(names) - 1), at, -1):
        names[x] = names[x - 1]
    names[at] = slot
    last[owner] = _between(points, owner, states, names[min(held, len(names) - 1)], scale)
