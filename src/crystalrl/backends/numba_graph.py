"""Numba loops over kept neighbour lists: who is near whom, found through common company. See `memory.company`.

graph = (lists i32[N, K], start i64[N + 1], hosts i32[M]): slot j stands in the lists of hosts[start[j]:start[j + 1]].
space = (points [N, D], states [N, D], scale f32[D]): lists of slot i hold states near its point.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

jit = numba.njit(cache=True, nogil=True, error_model="numpy")
fast = numba.njit(cache=True, nogil=True, error_model="numpy", fastmath=True)


@jit
def reverse(lists: Any, start: Any, hosts: Any) -> None:
    """Fill start and hosts of the graph from its lists."""
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
                hosts[next_free[j]] = i
                next_free[j] += 1


@jit
def forget(lists: Any, gone: Any) -> None:
    """Take the slots that are gone, bool[N], out of the lists; what stays moves up. Their own lists are cleared."""
    for i in range(lists.shape[0]):
        kept = 0
        for x in range(lists.shape[1]):
            j = lists[i, x]
            if j < 0:
                break
            if not gone[j] and not gone[i]:
                lists[i, kept] = j
                kept += 1
        for x in range(kept, lists.shape[1]):
            if lists[i, x] < 0:
                break
            lists[i, x] = -1


@fast
def _apart(point: Any, states: Any, j: int, scale: Any) -> Any:
    """Squared distance of a point (divided by the deviations) to the state of slot j."""
    total = np.float32(0)
    for d in range(len(scale)):
        gap = np.float32(states[j, d]) * scale[d] - point[d]
        total += gap * gap
    return total


@jit
def _insert(names: Any, far: Any, fresh: Any, held: int, j: int, apart: Any) -> int:
    """Put slot j into names, nearest first, if it is near enough; how many there are then."""
    if held == len(names) and apart >= far[held - 1]:
        return held
    at = min(held, len(names) - 1)
    while at > 0 and far[at - 1] > apart:
        names[at], far[at], fresh[at] = names[at - 1], far[at - 1], fresh[at - 1]
        at -= 1
    names[at], far[at], fresh[at] = j, apart, True
    return min(held + 1, len(names))


@jit
def walk(graph: Any, space: Any, who: Any, starts: Any, limits: Any, out: Any) -> None:
    """States nearest to the points of slots who i64[P]: out i32[P, R], nearest first, −1 for none; never who itself.

    From starts i32[P, T] (−1: none), and from the company of the slot itself if `own`, on to the company of the nearest
    found so far: the members of up to `few` lists in which it stands; until nothing new is near, or `most` states have
    been looked at. limits = (most, few, turn, own); which lists come first changes with the turn.
    """
    lists, start, hosts = graph
    points, states, scale = space
    most, few, turn, own = limits
    far, fresh = np.empty(out.shape[1], np.float32), np.empty(out.shape[1], np.bool_)
    point, seen = np.empty(len(scale), np.float32), np.zeros(lists.shape[0], np.int32)
    for p in range(len(who)):
        me, held, looked, names = who[p], 0, 0, out[p]
        seen[me] = p + 1
        names[:] = -1
        for d in range(len(scale)):
            point[d] = np.float32(points[me, d]) * scale[d]
        for j in starts[p]:
            if j >= 0 and seen[j] != p + 1:
                seen[j] = p + 1
                held = _insert(names, far, fresh, held, j, _apart(point, states, j, scale))
        member, at = me, -1
        if not own:
            member, at = -1, 0
        while looked < most:
            if at >= 0:
                while at < held and not fresh[at]:
                    at += 1
                if at >= held:
                    break
                fresh[at] = False
                member = names[at]
            count = start[member + 1] - start[member]
            for x in range(min(few, count)):
                host = hosts[start[member] + (turn + x) % count]
                for j in lists[host]:
                    if j < 0:
                        break
                    if seen[j] != p + 1:
                        seen[j] = p + 1
                        looked += 1
                        held = _insert(names, far, fresh, held, j, _apart(point, states, j, scale))
            at = 0


@jit
def introduce(graph: Any, space: Any, new: Any, hints: Any) -> None:
    """Offer slots new i64[P] to the lists in which their hints i32[P, T] (−1: none) stand; each list keeps the nearest.

    A list takes none that is farther than its last, even if it has room: so it names the nearest, however many it has
    lost, and its length says when to look for more. Lists change, the rest of the graph does not: newcomers are not
    found through one another.
    """
    lists, start, hosts = graph
    points, states, scale = space
    point, seen = np.empty(len(scale), np.float32), np.zeros(lists.shape[0], np.int32)
    room = lists.shape[1]
    for p in range(len(new)):
        guest = new[p]
        seen[guest] = p + 1
        for hint in hints[p]:
            if hint < 0:
                continue
            for host in hosts[start[hint] : start[hint + 1]]:
                if seen[host] == p + 1:
                    continue
                seen[host] = p + 1
                mine, held, known = lists[host], room, False
                for d in range(len(scale)):
                    point[d] = np.float32(points[host, d]) * scale[d]
                for x in range(room):
                    known = known or mine[x] == guest
                    if mine[x] < 0:
                        held = x
                        break
                apart = _apart(point, states, guest, scale)
                if known or (held > 0 and apart >= _apart(point, states, mine[held - 1], scale)):
                    continue
                at = min(held, room - 1)
                while at > 0 and _apart(point, states, mine[at - 1], scale) > apart:
                    mine[at] = mine[at - 1]
                    at -= 1
                mine[at] = guest
