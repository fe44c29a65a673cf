"""The hot loops on CPU that write slots, compiled by numba. `numpy_writes` has the same functions; tests compare them.

tree and rule: see `numba_tree`. Axes: L lanes, N slots, M new experiences, B draws, W words of a row.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types
from numba.experimental import structref

from crystalrl.backends import numpy_writes
from crystalrl.backends.numba_jit import bound as bound
from crystalrl.backends.numba_jit import jit, prefetch
from crystalrl.backends.numba_tree import update_sums, weigh
from crystalrl.backends.protocols import UNLABELLED

LINE = 8
"""Words of a cache line."""


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
    stride, words = len(out) // len(rows), rows.shape[2]
    for lane in range(slot.shape[0]):
        for b in range(slot.shape[1]):
            for w in range(0, words + LINE - 1, LINE):
                prefetch(out, (lane * stride + slot[lane, b]) * words + min(w, words - 1))
        for b in range(slot.shape[1]):
            for w in range(words if slot[lane, b] >= 0 else 0):
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
def _expect(floats: Any, small: Any, birth: Any, updated: Any, lane: int, slot: Any) -> None:
    """Ask for the columns of slots [M], so that cache misses overlap."""
    lanes, width = birth.shape
    for i in slot:
        at = lane * width + i
        for k in range(len(floats)):
            prefetch(floats, k * lanes * width + at)
        for k in range(len(small)):
            prefetch(small, k * lanes * width + at)
        prefetch(birth, at)
        prefetch(updated, at)


@jit
def commit(tree: Any, rule: Any, columns: Any, slot: Any, c: Any, n_step: int) -> None:
    """Register new experiences with crystallization c f32[L, 1 or M] in slots i64[L, M]: columns, counts, weights,
    labels, sums, generations; a negative slot is skipped, and no slot occurs twice."""
    label, generation, weighting, epsilon, highest = tree[1], tree[3], rule[2], rule[3], rule[5]
    floats, small, birth, updated, env, clock, number, filled, thresholds = columns  # helpers would cost time
    mark, weight = np.zeros(slot.shape, np.uint8), np.empty(slot.shape, np.float32)
    for lane in range(slot.shape[0]):
        _expect(floats, small, birth, updated, lane, slot[lane])
        for b in range(slot.shape[1]):
            i, state = slot[lane, b], c[lane, min(b, c.shape[1] - 1)]
            if i < 0:
                continue
            for enter in thresholds:
                mark[lane, b] += state > enter[lane, 0]
            weight[lane, b] = weigh(highest[lane], weighting[mark[lane, b]], state, epsilon)
            if label[lane, i] != UNLABELLED:
                filled[lane, label[lane, i]] -= 1.0
            filled[lane, mark[lane, b]] += 1.0
            for k in range(len(floats)):
                floats[k, lane, i] = 0.0 if k else state
            for k in range(len(small)):
                small[k, lane, i] = 0
            birth[lane, i], updated[lane, i] = number[lane], np.int32(clock[lane])  # the clock wraps around
            if env.size:
                env[lane, i] = b // n_step
            number[lane] += 1
            generation[lane, i] += 1
    update_sums(tree, slot, weight, mark)


structs: Any = structref


@structs.register
class _HeldType(types.StructRef):
    """The type of `Held` in compiled code."""


class Held(structref.StructRefProxy):
    """The arrays of a ledger, given to compiled code once: unpacking twenty of them from Python objects at each call
    takes longer than storing a few experiences.
    """


structs.define_constructor(Held, _HeldType, ["order", "tree", "rule", "columns"])
structs.define_boxing(_HeldType, Held)
_held: Any = Held


@jit
def hold(order: Any, tree: Any, rule: Any, columns: Any) -> Any:
    """See `CpuEntry`."""
    return _held(order, tree, rule, columns)


@jit
def admit_ring(held: Any, slot: Any, time: Any) -> None:
    """Allocate slots i64[L, M], advance the time i64[L] by M."""
    counter, slots, queue = held.order
    allocate(np.ones(slot.shape, np.bool_), counter, slots, queue, slot)
    time += slot.shape[1]


@jit
def admit_plain(held: Any, slot: Any, time: Any) -> None:
    """`admit_ring` and `commit_plain`."""
    admit_ring(held, slot, time)
    commit_plain(held.tree, slot, held.rule[5])


@jit
def admit(held: Any, slot: Any, time: Any) -> None:
    """`admit_ring`, and `commit` with c = 0."""
    admit_ring(held, slot, time)
    commit(held.tree, held.rule, held.columns, slot, np.zeros((len(slot), 1), np.float32), 1)


def finite(values: Any) -> Any:
    """Whether all values [L, E, K] are finite."""
    return numpy_writes.finite(values) if values.dtype == np.float16 else _finite(values)  # numba has no float16


@jit
def _finite(values: Any) -> bool:
    wrong = 0
    for lane in range(values.shape[0]):
        for e in range(values.shape[1]):
            for k in range(values.shape[2]):
                wrong += not abs(values[lane, e, k]) < np.inf
    return wrong == 0


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
