"""The functions of `numba_tree` in NumPy, for machines without numba.

NumPy costs time per call rather than per element. So a draw takes a running sum over the lowest level of at most TOP
nodes, searches it, and descends from there. Slots are the same as with numba for the same uniforms, unless a uniform is
within rounding (1e-15) of the border between two nodes.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from crystalrl.backends.protocols import BELOW_ONE, UNLABELLED, Weighting
from crystalrl.backends.splitmix import GOLDEN, MIX_1, MIX_2, mix_int

ARITY = 16
"""Children of a node."""
TOP = 4096
"""Maximum number of nodes of the highest level: up to here a running sum costs less than one more level."""

golden, mix_1, mix_2 = np.uint64(GOLDEN), np.uint64(MIX_1), np.uint64(MIX_2)
s30, s27, s31, s11 = np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(11)


def _mix(x: Any) -> Any:
    """The SplitMix64 output function, in place."""
    x ^= x >> s30
    x *= mix_1
    x ^= x >> s27
    x *= mix_2
    x ^= x >> s31
    return x


def fill_uniform(key: Any, tick: Any, out: Any) -> None:
    begin = (int(tick) + 1) * GOLDEN
    start = np.array([[mix_int(lane + begin)] for lane in key.tolist()], np.uint64)
    x = start + np.arange(1, out.shape[1] + 1, dtype=np.uint64) * golden
    np.multiply(_mix(x) >> s11, 2.0**-53, out=out)


def fill_integers(key: Any, tick: Any, count: Any, out: Any) -> None:
    uniform = np.empty(out.shape)
    fill_uniform(key, tick, uniform)
    np.multiply(uniform, count[:, None], out=out, casting="unsafe")


def descend(tree: Any, uniform: Any, stratum: Any, slot: Any, share: Any) -> None:
    weight, label, sums, _, _ = tree
    offsets = tree[4].tolist()
    lanes, strata, nodes = sums.shape
    lane = np.arange(lanes).repeat(uniform.shape[1]) if lanes > 1 else 0
    row = lane * strata + stratum.reshape(-1).astype(np.int64) if strata > 1 else lane
    running = np.zeros((lanes * strata, nodes - offsets[-1] + 1))
    np.add.accumulate(sums[:, :, offsets[-1] :].reshape(lanes * strata, -1), axis=1, out=running[:, 1:])
    total = running[row, -1]
    rest = np.minimum(uniform.reshape(-1) * total, total * BELOW_ONE)
    node = _search(running, rest, row)
    rest -= running[row, node]
    for offset in offsets[-2::-1]:
        members = sums.reshape(-1, ARITY).take(node + (row * nodes + offset) // ARITY, axis=0)
        node, rest = _choose(members, node, rest)
    family = node + lane * (weight.shape[1] // ARITY)
    members = weight.reshape(-1, ARITY).take(family, axis=0)
    if strata > 1:
        members *= label.reshape(-1, ARITY).take(family, axis=0) == stratum.reshape(-1, 1)
    node, _ = _choose(members, node, rest)
    slot.reshape(-1)[:] = node
    node += lane * weight.shape[1]
    np.divide(weight.reshape(-1).take(node), total, out=share.reshape(-1))


def _search(running: Any, rest: Any, row: Any) -> Any:
    """Node in whose interval `rest` [K] falls, in its row of `running`, which begins with a zero."""
    if len(running) == 1:
        return running[0, 1:].searchsorted(rest, side="right")
    node = np.empty(rest.shape, np.int64)
    for i, sums in enumerate(running[:, 1:]):
        mine = row == i
        node[mine] = sums.searchsorted(rest[mine], side="right")
    return node


def _choose(members: Any, node: Any, rest: Any) -> tuple[Any, Any]:
    """The child of `node` [K] in whose interval `rest` falls, and the remainder of `rest` in it; members [K, arity].

    Rounding may have raised `rest` to the sum of the members or above, so it is first clamped below it. Then the first
    running sum above it exists and belongs to a member of positive weight.
    """
    size = len(members)
    running = np.zeros((ARITY + 1, size))
    running[1:] = members.T
    for before, after in pairwise(running):
        after += before
    rest = np.minimum(rest, running[-1] * BELOW_ONE)
    child = (running[1:] <= rest).argmin(0)
    rest -= running.reshape(-1).take(child * size + np.arange(size))
    return node * ARITY + child, rest


def sample(tree: Any, random: Any, stratum: Any, count: Any, beta: Any, gate: Any, drawn: Any) -> None:
    c, power, floor = gate
    slot, out, ticket = drawn
    share, uniform = np.empty(stratum.shape), np.empty(stratum.shape)
    fill_uniform(random[0], random[1], uniform)
    descend(tree, uniform, stratum, slot, share)
    tree[3].reshape(-1).take(positions(slot, tree[3].shape[1]), out=ticket)
    share *= count if count.shape[1] == 1 else count[lanes_of(slot), stratum]
    np.power(share, -beta, out=share)
    np.divide(share, share.max(-1, keepdims=True), out=out, casting="same_kind")
    if c.shape[1] > 0:
        plastic = (1.0 - c[lanes_of(slot), slot].astype(np.float64)) ** power
        np.multiply(out, np.maximum(plastic, floor), out=out, casting="same_kind")


def update_sums(tree: Any, slot: Any, value: Any, new_label: Any) -> None:
    """A negative slot becomes the last padding leaf, whose weight is always 0."""
    weight, label, sums, _, offsets = tree
    if slot.min() < 0:
        kept = slot >= 0
        slot, value = np.where(kept, slot, weight.shape[1] - 1), value * kept
        new_label = np.where(kept, new_label, UNLABELLED)
    (lanes, strata, nodes), values = sums.shape, sums.reshape(-1)
    flat = positions(slot, weight.shape[1])
    weight.reshape(-1)[flat] = value
    leaves = _family(weight, flat // ARITY)
    if strata > 1:
        label.reshape(-1)[flat] = new_label
        leaves = leaves * (_family(label, flat // ARITY) == np.arange(strata)[:, None, None])
    first = (
        np.arange(lanes * strata).reshape(lanes, strata).T[..., None] * nodes
    )  # first node of each stratum and lane: [S, L, 1]
    node = slot // ARITY
    values[first + node] = _in_order(leaves)
    for below, offset in pairwise(offsets.tolist()):
        node = node // ARITY
        if offset - below <= ARITY * slot.shape[1]:  # no more nodes than slots: recomputing the whole level costs less
            _update_level(sums, below, offset)
        else:
            values[first + offset + node] = _in_order(_family(sums, (first + below) // ARITY + node))


def positions(slot: Any, width: int) -> Any:
    """Positions of slots [L, B] in a flat array of lanes of this width."""
    return slot if len(slot) == 1 else slot + lanes_of(slot) * width


def lanes_of(slot: Any) -> Any:
    """Number of each lane [L, 1]."""
    return np.arange(len(slot))[:, None]


def _family(values: Any, family: Any) -> Any:
    """Children float64[arity, S, L, B] of nodes [S, L, B] or [L, B], numbered over all rows of `values`."""
    members = values.reshape(-1, ARITY).take(family.reshape(-1), axis=0)
    return members.T.astype(np.float64, order="C").reshape(ARITY, -1, *family.shape[-2:])


def _in_order(children: Any) -> Any:
    """Sum over the first axis in order, like numba; NumPy would sum a single column pairwise."""
    if children[0].size == 1:
        return np.add.accumulate(children, axis=0)[-1]
    return np.add.reduce(children, axis=0)


def _update_level(sums: Any, below: int, offset: int) -> None:
    """Recompute all nodes of the level at `offset` from the level at `below`."""
    children = sums[:, :, below:offset].reshape(*sums.shape[:2], -1, ARITY)
    sums[:, :, offset : offset + children.shape[2]] = _in_order(np.ascontiguousarray(np.moveaxis(children, -1, 0)))


def learn(tree: Any, rule: Any, slot: Any, ticket: Any, magnitude: Any) -> None:
    (weight, label, _, generation, _), (c, error, weighting, epsilon, exponent, max_priority) = tree, rule
    flat = positions(slot, weight.shape[1])
    stale = generation.reshape(-1).take(flat) != ticket
    base = ((magnitude.astype(np.float64) + epsilon) ** exponent).astype(np.float32)
    some = stale.any()
    np.maximum(max_priority, (np.where(stale, 0, base) if some else base).max(-1), out=max_priority)
    mark, value = np.zeros(slot.shape, np.uint8), base
    if c.shape[1] > 0:
        lane, mark = lanes_of(slot), label.reshape(-1).take(flat)
        value = weigh(base, weighting, mark, c[lane, slot], epsilon)
        error[lane, np.where(stale, error.shape[1] - 1, slot)] = magnitude
    update_sums(tree, np.where(stale, -1, slot) if some else slot, value, mark)


def weigh(base: Any, weighting: Any, label: Any, c: Any, epsilon: float) -> Any:
    """Draw weights float32[L, B] of slots with the given base, label and c."""
    value = base
    for stratum, how in enumerate(weighting):
        if how == Weighting.BASE_ROOT_C:
            value = np.where(label == stratum, base * np.sqrt(c), value)
        elif how == Weighting.C:
            value = np.where(label == stratum, c, value)
    return np.maximum(value, np.float32(epsilon))


def build_sums(tree: Any) -> None:
    weight, label, sums, _, offsets = tree
    leaves, labels = (np.ascontiguousarray(x.reshape(len(x), -1, ARITY).transpose(2, 0, 1)) for x in (weight, label))
    for s in range(sums.shape[1]):
        mine = leaves.astype(np.float64) if sums.shape[1] == 1 else leaves * (labels == s).astype(np.float64)
        sums[:, s, : leaves.shape[2]] = _in_order(mine)
    for below, offset in pairwise(offsets.tolist()):
        _update_level(sums, below, offset)
