"""Numba loops over lists of similar experiences: those within ε of each, as an interference rule measures it. See
`memory.neighbours.similar`.

lists = i32[N, K]: slots, −1 for none, existing ones first.
labels = (states, scale f32[D], actions, action scale f32[A], contexts [N], or [0] if they do not count); states and
actions are (rows [N, S], first), as in `numba_graph`.
how = (ε, whether actions are codes, whether their distance is added to that of the states).
classes = (kind, values [N], δ): which of two classes a slot belongs to; see `_first_class`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from crystalrl.backends.numba_jit import fast, jit

FLAGGED, GREATER, APART = 0, 1, 2
"""Kinds of classes: values that are not 0; greater than the owner's; more than δ from it."""
ROOT = np.float32(2**0.5)


@fast
def _distance(vectors: Any, scale: Any, i: int, j: int) -> Any:
    """Distance of vectors i and j, in units of 1/scale."""
    rows, first = vectors
    one, other, total = rows[i, first : first + len(scale)], rows[j, first : first + len(scale)], np.float32(0)
    for d in range(len(scale)):
        gap = (np.float32(other[d]) - np.float32(one[d])) * scale[d]
        total += gap * gap
    return np.sqrt(total)


@jit
def apart(labels: Any, how: Any, i: int, j: int) -> Any:
    """Distance of experiences i and j; infinite if they are not similar."""
    states, scale, actions, action_scale, contexts = labels
    epsilon, discrete, summed = how
    if not summed and len(contexts) > 0 and contexts[i] != contexts[j]:
        return np.float32(np.inf)
    if discrete:
        codes, first = actions
        action = ROOT if codes[i, first] != codes[j, first] else np.float32(0)
    else:
        action = _distance(actions, action_scale, i, j)
    if not summed and action > (np.float32(0) if discrete else epsilon):
        return np.float32(np.inf)
    far = _distance(states, scale, i, j)
    if summed:
        far += action
        return far if far < epsilon else np.float32(np.inf)
    far = max(far, action)
    return far if far <= epsilon else np.float32(np.inf)


@jit
def _first_class(classes: Any, i: int, j: int) -> bool:
    """Whether slot j belongs to the first of the two classes that the rule compares for slot i."""
    kind, values, delta = classes
    if kind == FLAGGED:
        return bool(values[j] != 0)
    if kind == GREATER:
        return bool(values[j] > values[i])
    return bool(abs(values[j] - values[i]) > delta)


@jit
def _keep(names: Any, far: Any, held: int, j: int, distance: Any) -> int:
    """Insert slot j into names, nearest first, the lower slot first among equals; returns the new number of names."""
    at = held
    while at > 0 and (far[at - 1] > distance or (far[at - 1] == distance and names[at - 1] > j)):
        at -= 1
    if at == len(names):
        return held
    for x in range(min(held, len(names) - 1), at, -1):
        names[x], far[x] = names[x - 1], far[x - 1]
    names[at], far[at] = j, distance
    return min(held + 1, len(names))


@jit
def _merge(scratch: Any, held: Any, out: Any) -> None:
    """Both classes share the places of a list equally as long as there are enough of each, the nearest first."""
    names = scratch[0]
    at = [0, 0]
    for x in range(len(out)):
        turn = x % 2
        if at[turn] == held[turn]:
            turn = 1 - turn
        if at[turn] == held[turn]:
            out[x] = -1
        else:
            out[x] = names[turn, at[turn]]
            at[turn] += 1


@jit
def _choose(lists: Any, i: int, given: Any, labels: Any, how: Any, classes: Any, scratch: Any, seen: Any) -> None:
    """Let the list of slot i keep the nearest of what it holds and of the slots given (−1: none)."""
    names, far, held = scratch
    held[:] = 0
    for some in (lists[i], given):
        for j in some:
            if j < 0 or j == i or seen[j] == i:
                continue
            seen[j] = i
            distance = apart(labels, how, i, j)
            if distance < np.inf:
                turn = 0 if _first_class(classes, i, j) else 1
                held[turn] = _keep(names[turn], far[turn], held[turn], j, distance)
    for some in (lists[i], given):
        for j in some:
            if j >= 0:
                seen[j] = -1
    _merge(scratch, held, lists[i])


@jit
def _scratch(lists: Any) -> Any:
    """Names and distances of both classes, and how many there are of each."""
    room = lists.shape[1]
    return np.empty((2, room), np.int32), np.empty((2, room), np.float32), np.zeros(2, np.int64)


@jit
def offer(lists: Any, labels: Any, how: Any, classes: Any, slots: Any, given: Any) -> None:
    """Let the lists of slots i64[P] keep the nearest of what they hold and of given i32[P, T] (−1: none)."""
    scratch, seen = _scratch(lists), np.full(lists.shape[0], -1, np.int32)
    for p in range(len(slots)):
        _choose(lists, slots[p], given[p], labels, how, classes, scratch, seen)


@jit
def offer_back(lists: Any, labels: Any, how: Any, classes: Any, slots: Any, near: Any, visited: Any) -> None:
    """Offer slots i64[P] to the lists of those of near i32[P, T] that are similar to them, and mark these as visited
    (bool[W])."""
    start, kept = np.zeros(lists.shape[0] + 1, np.int64), np.zeros(near.shape, np.bool_)
    for p in range(len(slots)):
        for t in range(near.shape[1]):
            j = near[p, t]
            kept[p, t] = j >= 0 and j != slots[p] and apart(labels, how, j, slots[p]) < np.inf
            if kept[p, t]:
                visited[j] = True
                start[j + 1] += 1
    for j in range(len(start) - 1):
        start[j + 1] += start[j]
    given, next_free = np.empty(start[-1], np.int32), start[:-1].copy()
    for p in range(len(slots)):
        for t in range(near.shape[1]):
            if kept[p, t]:
                given[next_free[near[p, t]]] = slots[p]
                next_free[near[p, t]] += 1
    scratch, seen = _scratch(lists), np.full(lists.shape[0], -1, np.int32)
    for i in range(lists.shape[0]):
        if start[i + 1] > start[i]:
            _choose(lists, i, given[start[i] : start[i + 1]], labels, how, classes, scratch, seen)


@jit
def tally(lists: Any, outcomes: Any, delta: Any, out: Any) -> None:
    """The sums of `contradiction.Tally` over each list → out f32[6, W].

    outcomes = (reward f32[W], birth i64[W], liquid bool[W], unevaluated bool[W], visited bool[W]).
    """
    reward, birth, liquid, unevaluated, visited = outcomes
    for i in range(lists.shape[0]):
        oldest = np.iinfo(np.int64).max
        for j in lists[i]:
            if j >= 0 and liquid[j]:
                oldest = min(oldest, birth[j])
        recent, differing, new, older, recent_sum, older_sum = 0, 0, int(visited[i]), 0, 0.0, 0.0
        for j in lists[i]:
            if j >= 0 and birth[j] >= oldest:
                recent += 1
                recent_sum += reward[j]
                differing += abs(reward[j] - reward[i]) > delta
                new += unevaluated[j]
            elif j >= 0:
                older += 1
                older_sum += reward[j]
        out[0, i], out[1, i], out[2, i], out[3, i] = recent, recent_sum, differing, new
        out[4, i], out[5, i] = older, older_sum
