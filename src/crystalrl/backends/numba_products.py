"""Numba loops that find near vectors from approximate products of vectors, exactly. See `memory.neighbours.products`.

tile = f32[R, C]: approximate products of R rounded rows and C rounded columns.
rows, columns = (vectors f32[·, D], squared norms f32[·] of the rounded vectors, distances f32[·] of vectors to rounded
ones, slots i64[·]).
how = (relative error of a product, its error relative to the norms of the factors).
A pair is examined exactly if the triangle inequality leaves it a chance, so the errors cost time, not neighbours.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from crystalrl.backends.numba_graph import _insert
from crystalrl.backends.numba_jit import fast, jit

GROUP = 64
"""Columns that are compared with a bound at once."""
SLACK = np.float32(1 + 1e-5)
"""Bounds are widened by this, for rounding."""


@fast
def _count(products: Any, norms: Any, relative: Any, bound: Any) -> int:
    """Columns whose norm − 2·product − error does not exceed a bound."""
    count = 0
    for c in range(len(products)):
        count += norms[c] - np.float32(2) * products[c] - relative * abs(products[c]) <= bound
    return count


@jit
def _bound(limit: Any, norm: Any, error: Any, largest: Any, how: Any) -> Any:
    """What norm − 2·product − error of a column must not exceed for its distance to a row to be within √limit.

    largest: squared norm and error of the columns.
    """
    reach = (np.sqrt(limit) + error + largest[1]) * SLACK
    return reach * reach - norm + how[1] * np.sqrt(norm * largest[0])


@fast
def _apart(one: Any, others: Any, c: int) -> Any:
    """Squared distance of a vector to the c-th of others."""
    total = np.float32(0)
    for d in range(len(one)):
        gap = others[c, d] - one[d]
        total += gap * gap
    return total


@jit
def _keep(names: Any, far: Any, held: int, slot: int, apart: Any) -> int:
    """Insert a slot, nearest first; returns the new number of names."""
    at = min(held, len(names) - 1)
    while at > 0 and far[at - 1] > apart:
        names[at], far[at] = names[at - 1], far[at - 1]
        at -= 1
    names[at], far[at] = slot, apart
    return min(held + 1, len(names))


@jit
def _limit(far: Any, held: int, few: int, near: Any, first: Any) -> Any:
    """Squared distance from which a row takes no more: of its `few`-th, at first `first`, or `near` if that is more and
    there is room."""
    return max(far[few - 1] if held >= few else first, near if held < len(far) else min(near, far[held - 1]))


@jit
def keep_nearest(tile: Any, rows: Any, columns: Any, how: Any, wanted: Any, found: Any) -> None:
    """Let every row keep its `few` nearest columns, if they are nearer than √first, and up to K of those within √near,
    without its own slot.

    wanted = (few, near, first f32[R]); found = (names i32[R, K], squared distances f32[R, K], numbers held i64[R]).
    """
    few, near, start = wanted
    vectors, norms, errors, own = rows
    others, lengths, deviations, slots = columns
    largest = (lengths.max(), deviations.max())
    for r in range(tile.shape[0]):
        vector, row, names, far, count = vectors[r], tile[r], found[0][r], found[1][r], found[2][r]
        limit = _limit(far, count, few, near, start[r])
        bound = _bound(limit, norms[r], errors[r], largest, how)
        for first in range(0, len(row), GROUP):
            end = min(first + GROUP, len(row))
            if not _count(row[first:end], lengths[first:end], how[0], bound):
                continue
            for c in range(first, end):
                if lengths[c] - np.float32(2) * row[c] - how[0] * abs(row[c]) > bound or slots[c] == own[r]:
                    continue
                apart = _apart(vector, others, c)
                if apart < limit:
                    count = _keep(names, far, count, slots[c], apart)
                    limit = _limit(far, count, few, near, start[r])
                    bound = _bound(limit, norms[r], errors[r], largest, how)
        found[2][r] = count


@jit
def offer(tile: Any, rows: Any, columns: Any, how: Any, lists: Any, space: Any, last: Any) -> None:
    """Offer the slots of the columns to the lists of the slots of the rows; last f32[N]: squared distance of the last
    entry of each list, which accepts nothing farther. See `numba_graph.insert`."""
    _, norms, errors, owners = rows
    _, lengths, deviations, slots = columns
    largest = (lengths.max(), deviations.max())
    for r in range(tile.shape[0]):
        owner = owners[r]
        bound = _bound(last[owner], norms[r], errors[r], largest, how)
        for first in range(0, tile.shape[1], GROUP):
            end = min(first + GROUP, tile.shape[1])
            if not _count(tile[r, first:end], lengths[first:end], how[0], bound):
                continue
            for c in range(first, end):
                product = tile[r, c]
                if lengths[c] - np.float32(2) * product - how[0] * abs(product) <= bound and slots[c] != owner:
                    _insert(lists[owner], space, owner, slots[c], last)
