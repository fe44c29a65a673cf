"""The hot loops on CPU, compiled by numba: random numbers, and sum trees as NumPy arrays.

`numpy_tree` has the same functions; tests compare the two on the same random numbers.

tree = (weight f32[L, N], label u8[L, N or 0], sums f64[L, S, M], generation i32[L, N], offsets i64[levels]), as in
`TreeTensors`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from crystalrl.backends.numba_jit import jit, prefetch
from crystalrl.backends.numpy_tree import ARITY
from crystalrl.backends.protocols import BELOW_ONE, Weighting
from crystalrl.backends.splitmix import GOLDEN, MIX_1, MIX_2

TOP = 1
"""Maximum number of nodes of the highest level: a draw starts at a single root."""

golden, mix_1, mix_2 = np.uint64(GOLDEN), np.uint64(MIX_1), np.uint64(MIX_2)
BASE_ROOT_C, C = int(Weighting.BASE_ROOT_C), int(Weighting.C)
s30, s27, s31, s11, one = np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(11), np.uint64(1)


@jit
def _mix(x: Any) -> Any:
    x = (x ^ (x >> s30)) * mix_1
    x = (x ^ (x >> s27)) * mix_2
    return x ^ (x >> s31)


@jit
def fill_uniform(key: Any, tick: Any, out: Any) -> None:
    """key uint64[L], tick uint64 → out float64[L, B] in [0, 1)."""
    for lane in range(out.shape[0]):
        state = _mix(key[lane] + (tick + one) * golden)
        for b in range(out.shape[1]):
            state = state + golden
            out[lane, b] = np.float64(_mix(state) >> s11) * 2.0**-53


@jit
def fill_integers(key: Any, tick: Any, count: Any, out: Any) -> None:
    """key uint64[L], tick uint64, count int64[L] → out int64[L, B] uniform in 0 … count − 1."""
    for lane in range(out.shape[0]):
        state = _mix(key[lane] + (tick + one) * golden)
        for b in range(out.shape[1]):
            state = state + golden
            out[lane, b] = np.int64(np.float64(_mix(state) >> s11) * 2.0**-53 * count[lane])


@jit
def descend(tree: Any, uniform: Any, stratum: Any, slot: Any, share: Any) -> None:
    """Draw one slot per uniform f64[L, B] from its stratum u8[L, B]; slot i64 and share f64 [L, B] are written.

    Level by level for the whole batch, not draw by draw, and each level asks for the cache lines of the next, so that
    cache misses of different draws overlap. Children are counted without branches, which would be mispredicted.
    """
    weight, label, sums, _, offsets = tree
    size, labelled, strata, nodes = uniform.shape[1], label.shape[1] > 0, sums.shape[1], sums.shape[2]
    rest, inside = np.empty(size), np.empty(size)
    for lane in range(uniform.shape[0]):
        for b in range(size):
            inside[b] = sums[lane, stratum[lane, b], offsets[-1]]
            rest[b] = uniform[lane, b] * inside[b]
            share[lane, b] = inside[b]
            slot[lane, b] = 0
        for level in range(len(offsets) - 2, -1, -1):
            for b in range(size):
                s, base = stratum[lane, b], offsets[level] + slot[lane, b] * ARITY
                left = min(rest[b], inside[b] * BELOW_ONE)
                running, before, child = 0.0, 0.0, 0
                for j in range(ARITY - 1):
                    running += sums[lane, s, base + j]
                    child += running <= left
                    before = running if running <= left else before
                rest[b], inside[b] = left - before, sums[lane, s, base + child]
                slot[lane, b] = slot[lane, b] * ARITY + child
                below = slot[lane, b] * ARITY
                if level > 0:
                    below += (lane * strata + s) * nodes + offsets[level - 1]
                    prefetch(sums, below)
                    prefetch(sums, below + ARITY // 2)
                    prefetch(sums, below + ARITY - 1)
                    continue
                prefetch(weight, lane * weight.shape[1] + below)
                prefetch(weight, lane * weight.shape[1] + below + ARITY - 1)
                if labelled:
                    prefetch(label, lane * weight.shape[1] + below)
        for b in range(size):
            s, base = stratum[lane, b], slot[lane, b] * ARITY
            left = min(rest[b], inside[b] * BELOW_ONE)
            running, child = 0.0, 0
            for j in range(ARITY - 1):
                mine = not labelled or label[lane, base + j] == s
                running += np.float64(weight[lane, base + j]) if mine else 0.0
                child += running <= left
            slot[lane, b] = base + child
            share[lane, b] = np.float64(weight[lane, base + child]) / share[lane, b]


@jit
def sample(tree: Any, random: Any, stratum: Any, count: Any, beta: Any, gate: Any, drawn: Any) -> None:
    """Draw, and compute weights: out f32[L, B] = (count·share)^(−β) divided by the lane's largest, times the gate.

    drawn = (slot i64[L, B], out, ticket i32[L, B]: the slots' generations); random = (key u64[L], tick u64); count
    f64[L, S], beta f64[L, 1]; gate = (c f32[L, N], power f64[L, 1], floor f64[L, 1]): max((1 − c)^power, floor), or 1
    if c is empty.
    """
    key, tick = random
    c, power, floor = gate
    slot, out, ticket = drawn
    share, uniform = np.empty(stratum.shape), np.empty(stratum.shape)
    fill_uniform(key, tick, uniform)
    descend(tree, uniform, stratum, slot, share)
    for lane in range(share.shape[0]):
        for b in range(share.shape[1]):  # apart from the powers, so that cache misses overlap
            ticket[lane, b] = tree[3][lane, slot[lane, b]]
            if c.shape[1] > 0:
                prefetch(c, lane * (c.strides[0] // c.itemsize) + slot[lane, b])
        largest = 0.0
        for b in range(share.shape[1]):
            share[lane, b] = (share[lane, b] * count[lane, stratum[lane, b]]) ** -beta[lane, 0]
            largest = max(largest, share[lane, b])
        for b in range(share.shape[1]):
            out[lane, b] = share[lane, b] / largest
            if c.shape[1] > 0:
                plastic = (1.0 - np.float64(c[lane, slot[lane, b]])) ** power[lane, 0]
                out[lane, b] *= max(plastic, floor[lane, 0])


@jit
def _sum_leaves(tree: Any, lane: int, s: Any, node: int) -> None:
    weight, label, sums, _, _ = tree
    labelled, total = label.shape[1] > 0, 0.0
    for j in range(node * ARITY, node * ARITY + ARITY):
        mine = not labelled or label[lane, j] == s
        total += np.float64(weight[lane, j]) if mine else 0.0
    sums[lane, s, node] = total


@jit
def _sum_nodes(tree: Any, level: int, lane: int, s: Any, node: int) -> None:
    sums, offsets = tree[2], tree[4]
    total, base = 0.0, offsets[level - 1] + node * ARITY
    for j in range(base, base + ARITY):
        total += sums[lane, s, j]
    sums[lane, s, offsets[level] + node] = total


@jit
def update_sums(tree: Any, slot: Any, value: Any, new_label: Any) -> None:
    """Set weight and label of slots [L, B] in order (a negative slot is skipped) and recompute the sums above."""
    weight, label, sums, _, offsets = tree
    labelled, strata, size = label.shape[1] > 0, sums.shape[1], slot.shape[1]
    old, node = np.zeros(size, np.uint8), np.empty(size, np.int64)
    for lane in range(slot.shape[0]):
        for b in range(size):
            i = slot[lane, b]
            node[b] = i // ARITY if i >= 0 else -1
            if i >= 0:
                weight[lane, i] = value[lane, b]
            if i >= 0 and labelled:
                old[b] = label[lane, i]
                label[lane, i] = new_label[lane, b]
        for level in range(len(offsets)):
            nodes = (offsets[level] - offsets[level - 1]) // ARITY
            if level > 0 and nodes * strata <= size:  # recomputing the whole level costs less
                for s in range(strata):
                    for k in range(nodes):
                        _sum_nodes(tree, level, lane, s, k)
                continue
            for b in range(size):
                if node[b] < 0:
                    continue
                if level > 0:
                    node[b] //= ARITY
                for s in (old[b], new_label[lane, b]):
                    if s < strata and level == 0:
                        _sum_leaves(tree, lane, s, node[b])
                    elif s < strata:
                        _sum_nodes(tree, level, lane, s, node[b])
                    if new_label[lane, b] == old[b]:
                        break


@jit
def weigh(base: Any, weighting: Any, c: Any, epsilon: float) -> Any:
    """Draw weight f32 of a slot with the given base and c, both f32."""
    if weighting == BASE_ROOT_C:
        base *= np.sqrt(c)
    elif weighting == C:
        base = c
    return max(base, np.float32(epsilon))


@jit
def _expect(tree: Any, lane: int, slot: Any) -> None:
    """Ask for what an update of slots [B] will read."""
    weight, generation = tree[0], tree[3]
    for i in slot:
        first = lane * weight.shape[1] + i // ARITY * ARITY
        prefetch(generation, lane * weight.shape[1] + i)
        prefetch(weight, first)
        prefetch(weight, first + ARITY - 1)


@jit
def learn(tree: Any, rule: Any, slot: Any, ticket: Any, magnitude: Any) -> None:
    """Set the weights of slots [L, B] from |TD error| f32[L, B], where a slot's generation is its ticket i32[L, B].

    rule = (c f32[L, N], error f32[L, N + 1], weighting (one integer per stratum), ε, exponent f64[L, 1], max_priority
    f32[L]); c and error are empty where weights depend on the TD error alone.
    """
    generation, label = tree[3], tree[1]
    c, error, weighting, epsilon, exponent, max_priority = rule
    mark = np.zeros(slot.shape, np.uint8)
    kept, value = np.empty(slot.shape, np.int64), np.empty(slot.shape, np.float32)
    for lane in range(slot.shape[0]):
        _expect(tree, lane, slot[lane])
        for b in range(slot.shape[1]):
            i = slot[lane, b]
            kept[lane, b] = i if generation[lane, i] == ticket[lane, b] else -1
            value[lane, b] = (np.float64(magnitude[lane, b]) + epsilon) ** exponent[lane, 0]
            if kept[lane, b] >= 0:
                max_priority[lane] = max(max_priority[lane], value[lane, b])
            if kept[lane, b] >= 0 and c.shape[1] > 0:
                error[lane, i] = magnitude[lane, b]
                mark[lane, b] = label[lane, i]
                how = weighting[mark[lane, b]] if mark[lane, b] < len(weighting) else 0
                value[lane, b] = weigh(value[lane, b], how, c[lane, i], epsilon)
    update_sums(tree, kept, value, mark)


@jit
def build_sums(tree: Any) -> None:
    """Recompute every sum from the leaves."""
    weight, label, sums, _, offsets = tree
    labelled = label.shape[1] > 0
    sums[:] = 0.0
    for lane in range(weight.shape[0]):
        for i in range(weight.shape[1]):
            s = label[lane, i] if labelled else 0
            if s < sums.shape[1]:
                sums[lane, s, i // ARITY] += np.float64(weight[lane, i])
        for s in range(sums.shape[1]):
            for level in range(1, len(offsets)):
                first, above = offsets[level - 1], offsets[level]
                for j in range(above - first):
                    sums[lane, s, above + j // ARITY] += sums[lane, s, first + j]
