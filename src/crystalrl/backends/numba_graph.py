"""Numba loops over neighbour lists, and searches through the graph they form. See `memory.neighbours.refine`.

graph = (lists i32[N, K], start i64[N + 1], reverse i32[M]): reverse[start[j]:start[j + 1]] are the reverse neighbours
of slot j, the slots whose lists contain it.
space = (points [N, D], states [N, D], scale f32[D]): the list of slot i contains states near point i.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from crystalrl.backends.numba_jit import fast, jit


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
    total = np.float32(0)
    for d in range(len(scale)):
        gap = np.float32(states[j, d]) * scale[d] - point[d]
        total += gap * gap
    return total


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
def search(graph: Any, space: Any, slots: Any, starts: Any, limits: Any, out: Any) -> None:
    """Greedy graph search: states nearest to the points of slots i64[P] → out i32[P, R], nearest first, −1 for none;
    never the slot itself.

    It starts from starts i32[P, T] (−1: none) and, if `own`, from the slot itself, and expands the nearest state not
    yet expanded: it visits the members of up to `few` lists that contain it. It ends when every state found is
    expanded, or after `most` visits. limits = (most, few, turn, own); `turn` changes which lists come first.
    """
    lists, start, reverse = graph
    points, states, scale = space
    most, few, turn, own = limits
    far, pending = np.empty(out.shape[1], np.float32), np.empty(out.shape[1], np.bool_)
    point, seen = np.empty(len(scale), np.float32), np.zeros(lists.shape[0], np.int32)
    for p in range(len(slots)):
        slot, held, visits, names = slots[p], 0, 0, out[p]
        seen[slot] = p + 1
        names[:] = -1
        for d in range(len(scale)):
            point[d] = np.float32(points[slot, d]) * scale[d]
        for j in starts[p]:
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
    points, states, scale = space
    point, seen = np.empty(len(scale), np.float32), np.zeros(lists.shape[0], np.int32)
    room = lists.shape[1]
    for p in range(len(new)):
        slot = new[p]
        seen[slot] = p + 1
        for hint in hints[p]:
            if hint < 0:
                continue
            for owner in reverse[start[hint] : start[hint + 1]]:
                if seen[owner] == p + 1:
                    continue
                seen[owner] = p + 1
                names, held, known = lists[owner], room, False
                for d in range(len(scale)):
                    point[d] = np.float32(points[owner, d]) * scale[d]
                for x in range(room):
                    known = known or names[x] == slot
                    if names[x] < 0:
                        held = x
                        break
                apart = _squared_distance(point, states, slot, scale)
                if known or (held > 0 and apart >= _squared_distance(point, states, names[held - 1], scale)):
                    continue
                at = min(held, room - 1)
                while at > 0 and _squared_distance(point, states, names[at - 1], scale) > apart:
                    names[at] = names[at - 1]
                    at -= 1
                names[at] = slot
