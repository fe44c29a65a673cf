"""The hot loops on CPU that write slots, compiled by numba. `numpy_writes` has the same functions; tests compare them.

tree and rule: see `numba_tree`. Axes: L lanes, N slots, M new experiences, B draws, W words of a row.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from crystalrl.backends.numba_jit import jit, prefetch
from crystalrl.backends.numba_tree import update_one, update_sums, weigh
from crystalrl.backends.protocols import UNLABELLED


@jit
def allocate(valid: Any, counter: Any, slots: int, queue: Any, out: Any) -> None:
    """See `Writes.allocate`; queue i32[L, N], or [L, 0] for a ring; out i64[L, M]."""
    for lane in range(valid.shape[0]):
        for b in range(valid.shape[1]):
            out[lane, b] = -1
            if valid[lane, b]:
                number = counter[lane]
                out[lane, b] = queue[lane, min(number, slots - 1)] if queue.shape[1] else number % slots
                counter[lane] = number + 1


@jit
def store_rows(rows: Any, slot: Any, out: Any) -> None:
    """See `Writes.store_rows`."""
    stride = len(out) // len(rows)
    for lane in range(slot.shape[0]):
        for b in range(slot.shape[1]):
            for w in range(rows.shape[2] if slot[lane, b] >= 0 else 0):
                out[lane * stride + slot[lane, b], w] = rows[lane, b, w]


@jit
def commit_plain(tree: Any, slot: Any, value: Any) -> None:
    """Give new experiences in slots i64[L, M] the weight f32[L] of their lane; a negative slot is skipped."""
    weight = np.empty(slot.shape, np.float32)
    for lane in range(slot.shape[0]):
        weight[lane] = value[lane]
        for i in slot[lane]:
            if i >= 0:
                tree[3][lane, i] += 1
    update_sums(tree, slot, weight, np.zeros(slot.shape, np.uint8))


@jit
def _write(columns: Any, lane: int, i: int, c: Any, env: int) -> None:
    """Write the columns of a new experience."""
    columns.floats[:, lane, i] = 0.0
    columns.floats[0, lane, i] = c
    columns.bytes[:, lane, i] = 0
    columns.birth[lane, i] = columns.number[lane]
    columns.updated[lane, i] = np.int32(columns.clock[lane])  # wraps around
    if columns.env.size:
        columns.env[lane, i] = env
    columns.number[lane] += 1


@jit
def commit(tree: Any, rule: Any, columns: Any, slot: Any, c: Any, n_step: int) -> None:
    """Register new experiences with crystallization c f32[L, 1 or M] in slots i64[L, M]: columns, counts, weights,
    labels, sums, generations; a negative slot is skipped, and no slot occurs twice."""
    label, generation, weighting, epsilon, highest = tree[1], tree[3], rule[2], rule[3], rule[5]
    mark, weight = np.zeros(slot.shape, np.uint8), np.empty(slot.shape, np.float32)
    for lane in range(slot.shape[0]):
        for b in range(slot.shape[1]):
            i, state = slot[lane, b], c[lane, min(b, c.shape[1] - 1)]
            if i < 0:
                continue
            for enter in columns.enter:
                mark[lane, b] += state > enter[lane, 0]
            weight[lane, b] = weigh(highest[lane], weighting[mark[lane, b]], state, epsilon)
            if label[lane, i] != UNLABELLED:
                columns.filled[lane, label[lane, i]] -= 1.0
            columns.filled[lane, mark[lane, b]] += 1.0
            _write(columns, lane, i, state, b // n_step)
            generation[lane, i] += 1
    update_sums(tree, slot, weight, mark)


@jit
def commit_one(tree: Any, columns: Any, slot: int, value: float) -> None:
    """`commit` of one slot of the only lane, empty or in the first stratum, with c = 0 and the weight `value`."""
    if tree[1][0, slot] == UNLABELLED:
        columns.filled[0, 0] += 1.0
    _write(columns, 0, slot, np.float32(0.0), 0)
    update_one(tree, slot, value, 0)


@jit
def examine(slot: Any, error: Any, magnitude: Any) -> Any:
    """Lowest and highest slot, and whether all errors are finite; magnitude = |error|; all [L, B]."""
    low, high, finite = slot[0, 0], slot[0, 0], True
    for lane in range(slot.shape[0]):
        for b in range(slot.shape[1]):
            low, high = min(low, slot[lane, b]), max(high, slot[lane, b])
            magnitude[lane, b] = abs(error[lane, b])
            finite = finite and np.isfinite(error[lane, b])
    return low, high, finite


@jit
def strength(state: Any, slot: Any, rule: Any, evaluated: int, out: Any) -> None:
    """out f32[L, B] = κ·c^p of slots i64[L, B], 0 where the flag is missing; state = (c f32[L, N], flags u8[L, N]),
    rule = (κ, p), both f64[L, 1]."""
    (c, flags), (kappa, exponent) = state, rule
    for lane in range(slot.shape[0]):
        for b in range(slot.shape[1]):
            prefetch(c, lane * (c.strides[0] // c.itemsize) + slot[lane, b])
            prefetch(flags, lane * flags.strides[0] + slot[lane, b])
        for b in range(slot.shape[1]):
            i = slot[lane, b]
            power = np.float64(c[lane, i]) ** exponent[lane, 0]
            out[lane, b] = kappa[lane, 0] * power if flags[lane, i] & evaluated else 0.0
