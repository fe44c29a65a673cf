"""The functions of `numba_writes` in NumPy, for machines without numba."""

from __future__ import annotations

from typing import Any

import numpy as np

from crystalrl.backends.numpy_tree import lanes_of, update_sums, weigh
from crystalrl.backends.protocols import UNLABELLED


def allocate(valid: Any, counter: Any, slots: int, queue: Any, out: Any) -> None:
    rank = valid.cumsum(-1) - 1
    number = counter[:, None] + rank
    chosen = np.take_along_axis(queue, number.clip(0, slots - 1), 1) if queue.shape[1] else number % slots
    counter += rank[:, -1] + 1
    out[:] = np.where(valid, chosen, -1)


def store_rows(rows: Any, slot: Any, out: Any) -> None:
    if slot.size == 1:
        if slot[0, 0] >= 0:
            out[slot[0, 0]] = rows[0, 0]
        return
    lanes, kept = len(rows), slot >= 0
    flat = slot if lanes == 1 else slot + lanes_of(slot) * (len(out) // lanes)
    out[flat[kept]] = rows[kept]


def commit_plain(tree: Any, slot: Any, value: Any) -> None:
    kept = slot >= 0
    update_sums(tree, slot, np.repeat(value[:, None], slot.shape[1], 1), np.zeros(slot.shape, np.uint8))
    tree[3][kept.nonzero()[0], slot[kept]] += 1  # no slot occurs twice


def _write(columns: Any, lane: Any, slot: Any, c: Any, birth: Any, env: Any) -> None:
    """Write the columns of new experiences; lane and slot are integers, or arrays [K] of integers."""
    columns.floats[:, lane, slot] = 0.0
    columns.floats[0, lane, slot] = c
    columns.bytes[:, lane, slot] = 0
    columns.birth[lane, slot] = birth
    columns.updated[lane, slot] = columns.clock[lane].astype(np.int32)  # wraps around
    if columns.env.size:
        columns.env[lane, slot] = env


def commit(tree: Any, rule: Any, columns: Any, slot: Any, c: Any, n_step: int) -> None:
    kept, state = slot >= 0, np.broadcast_to(c, slot.shape)
    lane, place = kept.nonzero()
    at, label = (lane, slot[kept]), (state > columns.enter).sum(0).astype(np.uint8)
    birth = columns.number[:, None] + kept.cumsum(-1) - 1
    _write(columns, *at, state[kept], birth[kept], place // n_step)
    columns.number[:] += kept.sum(-1)
    old = tree[1][at]
    there = old != UNLABELLED
    np.add.at(columns.filled, (lane, label[kept]), 1)
    np.subtract.at(columns.filled, (lane[there], old[there]), 1)
    base = np.repeat(rule[-1][:, None], slot.shape[1], 1)
    update_sums(tree, slot, weigh(base, rule[2], label, state, rule[3]), label)
    tree[3][at] += 1  # no slot occurs twice


def hold(order: Any, tree: Any, rule: Any, columns: Any) -> Any:
    return order, tree, rule, columns


def bound(function: Any, *examples: Any) -> Any:
    return function


def admit_ring(held: Any, slot: Any, time: Any) -> None:
    counter, slots, queue = held[0]
    if slot.size == 1:
        number = int(counter[0])
        slot[0, 0] = queue[0, min(number, slots - 1)] if queue.size else number % slots
        counter[0] = number + 1
    else:
        allocate(np.ones(slot.shape, bool), counter, slots, queue, slot)
    time += slot.shape[1]


def admit_plain(held: Any, slot: Any, time: Any) -> None:
    admit_ring(held, slot, time)
    _, tree, rule, _ = held
    tree[3][lanes_of(slot), slot] += 1
    update_sums(tree, slot, rule[5][:, None], np.zeros(slot.shape, np.uint8))


def admit(held: Any, slot: Any, time: Any) -> None:
    admit_ring(held, slot, time)
    _, tree, rule, columns = held
    if slot.size == 1:
        _commit_one(tree, rule, columns, slot)
    else:
        commit(tree, rule, columns, slot, np.zeros((len(slot), 1), np.float32), 1)


def _commit_one(tree: Any, rule: Any, columns: Any, slot: Any) -> None:
    """`commit` of one slot of the only lane with c = 0, in a third of the time."""
    i = slot[0, 0]
    old = int(tree[1][0, i])
    if old != 0:
        columns.filled[0, 0] += 1
        columns.filled[0, old : old + 1] -= 1  # nothing, if the slot was empty
    _write(columns, 0, i, 0.0, columns.number[0], 0)
    columns.number[0] += 1
    tree[3][0, i] += 1
    update_sums(tree, slot, rule[5][:, None], np.zeros(slot.shape, np.uint8))


def finite(values: Any) -> bool:
    return b"\0" not in np.isfinite(values).tobytes()  # takes a third of the time of `all`


def examine(slot: Any, error: Any, magnitude: Any) -> Any:
    np.abs(error, out=magnitude)
    return slot.min(), slot.max(), bool(magnitude.max() < np.inf)  # the maximum is NaN if any value is


def strength(state: Any, slot: Any, rule: Any, evaluated: int, out: Any) -> None:
    (c, flags), (kappa, exponent), lane = state, rule, lanes_of(slot)
    pull = kappa * c[lane, slot].astype(np.float64) ** exponent
    np.multiply(pull, (flags[lane, slot] & evaluated) > 0, out=out, casting="same_kind")
