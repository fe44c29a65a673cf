"""Sum trees on CUDA, by Triton: new weights in one launch, a rebuild in one launch per level.

The highest level has at most 64 nodes. Numbers that need double precision are never passed as float arguments, because
Triton takes these as float32.

One program does all writes to a lane's sums: it goes up level by level, and a barrier makes the writes of one level
visible to the next.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from crystalrl.backends.protocols import UNLABELLED, Rule, Weighting

ARITY = 64
"""Children of a node."""
TOP = 64
"""Maximum number of nodes of the highest level."""
arity, shift = tl.constexpr(ARITY), tl.constexpr(6)
unlabelled = tl.constexpr(UNLABELLED)
BLOCK, ROWS = 256, 64
"""Slots that a program reads at once; nodes whose children it sums at once."""
SIZES = ["slots", "size", "c_stride", "error_stride"]
"""Arguments that a kernel is not specialised for."""


class Tree(NamedTuple):
    """The tensors of `TreeTensors`, in the order of the kernels' arguments."""

    weight: Tensor
    label: Tensor
    sums: Tensor
    generation: Tensor
    slots: int

    @property
    def lanes(self) -> int:
        return self.weight.shape[0]

    @property
    def shape(self) -> dict[str, int]:
        """Compile-time arguments of the kernels: strata, and levels above the leaves."""
        size, levels = self.slots // ARITY + 1, 1
        while size > TOP:
            size, levels = -(-size // ARITY), levels + 1
        return {"STRATA": self.sums.shape[1], "LEVELS": levels}


@triton.jit
def to_power(base, exponent):
    """base^exponent in float64; base ≥ 0, and a base of 0 requires an exponent ≥ 0."""
    value = tl.exp(exponent * tl.log(tl.where(base > 0, base, 1.0)))
    return tl.where(base > 0, value, tl.where(exponent == 0.0, 1.0, 0.0))


@triton.jit
def level_nodes(slots, LEVEL: tl.constexpr):
    """Nodes of a level; level 0 is the first above the leaves."""
    size = slots // arity + 1
    for _ in tl.static_range(LEVEL):
        size = (size + arity - 1) // arity
    return size


@triton.jit
def level_offset(slots, LEVEL: tl.constexpr):
    """Offset of a level in `sums`; each is padded to a multiple of the arity."""
    size = slots // arity + 1
    at = size * 0
    for _ in tl.static_range(LEVEL):
        size = (size + arity - 1) // arity
        at += size * arity
    return at


@triton.jit
def _sum_leaves(weight, label, sums, slots, lane, node, live, STRATA: tl.constexpr, LEVELS: tl.constexpr):
    """Sums of the first level: of the leaves of nodes [B], where live."""
    leaf = lane * (slots // arity + 1) * arity + node[:, None] * arity + tl.arange(0, 64)[None, :]
    leaves = tl.load(weight + leaf, mask=live[:, None], other=0.0).to(tl.float64)
    row = sums + lane * STRATA * level_offset(slots, LEVELS)
    if STRATA == 1:
        tl.store(row + node, tl.sum(leaves, 1), mask=live)
    else:
        mark = tl.load(label + leaf, mask=live[:, None], other=255)
        for s in tl.static_range(STRATA):
            own = tl.sum(tl.where(mark == s, leaves, 0.0), 1)
            tl.store(row + s * level_offset(slots, LEVELS) + node, own, mask=live)


@triton.jit
def _sum_nodes(sums, slots, lane, node, live, LEVEL: tl.constexpr, STRATA: tl.constexpr, LEVELS: tl.constexpr):
    """Sums of a level above the first: of the children of nodes [B], where live."""
    child = level_offset(slots, LEVEL - 1) + node[:, None] * arity + tl.arange(0, 64)[None, :]
    for s in tl.static_range(STRATA):
        row = sums + (lane * STRATA + s) * level_offset(slots, LEVELS)
        own = tl.sum(tl.load(row + child, mask=live[:, None], other=0.0), 1)
        tl.store(row + level_offset(slots, LEVEL) + node, own, mask=live)


@triton.jit
def update_sums(
    weight, label, sums, slots, chosen, size, lane,
    STRATA: tl.constexpr, LEVELS: tl.constexpr, R: tl.constexpr,
):  # fmt: skip
    """Recompute the sums above the slots chosen [L, size] of a lane, whose leaves this program has written.

    A level that has fewer nodes than there are slots is recomputed as a whole.
    """
    tl.debug_barrier()
    for begin in range(0, size, R):
        element = begin + tl.arange(0, R)
        slot = tl.load(chosen + lane * size + element, mask=element < size, other=-1)
        live = (slot >= 0) & (slot < slots)
        _sum_leaves(weight, label, sums, slots, lane, slot >> shift, live, STRATA, LEVELS)
    for level in tl.static_range(1, LEVELS):
        tl.debug_barrier()
        nodes = level_nodes(slots, level)
        count = tl.minimum(nodes, size)
        for begin in range(0, count, R):
            element = begin + tl.arange(0, R)
            slot = tl.load(chosen + lane * size + element, mask=element < count, other=-1)
            node = tl.where(nodes <= size, element.to(tl.int64), slot >> (shift * (level + 1)))
            live = (element < count) & ((nodes <= size) | ((slot >= 0) & (slot < slots)))
            _sum_nodes(sums, slots, lane, node, live, level, STRATA, LEVELS)


@triton.jit
def weigh(base, mark, state, EPSILON: tl.constexpr, ROOTS: tl.constexpr, STATES: tl.constexpr, STRATA: tl.constexpr):
    """Draw weights float32 from base float32, labels and c; the bits of ROOTS and STATES mark the strata with weights
    base·√c and c, see `Weighting`.
    """
    value = base
    for s in tl.static_range(STRATA):
        if (ROOTS >> s) & 1:
            value = tl.where(mark == s, base * tl.sqrt(state.to(tl.float64)).to(tl.float32), value)
        if (STATES >> s) & 1:
            value = tl.where(mark == s, state, value)
    return tl.where(mark == unlabelled, 0.0, tl.maximum(value, EPSILON))


@triton.jit(do_not_specialize=SIZES)
def _learn(
    weight, label, sums, generation, slots,
    chosen, ticket, magnitude, c, error, exponent, max_priority, size, c_stride, error_stride,
    EPSILON: tl.constexpr, ROOTS: tl.constexpr, STATES: tl.constexpr, BY_C: tl.constexpr,
    STRATA: tl.constexpr, LEVELS: tl.constexpr, B: tl.constexpr, R: tl.constexpr,
):  # fmt: skip
    """Set new weights of the drawn slots of a lane, except where a slot's generation is not its ticket, or its error is
    not finite (which `magnitude` has recorded).
    """
    lane = tl.program_id(0).to(tl.int64)
    row = lane * (slots // arity + 1) * arity
    top, power = tl.load(max_priority + lane), tl.load(exponent + lane)
    for begin in range(0, size, B):
        element = begin + tl.arange(0, B)
        slot = tl.load(chosen + lane * size + element, mask=element < size, other=-1)
        live = (slot >= 0) & (slot < slots)
        drawn = tl.load(ticket + lane * size + element, mask=live, other=0)
        same = tl.load(generation + row + slot, mask=live, other=0) == drawn
        delta = tl.load(magnitude + lane * size + element, mask=live, other=0.0)
        kept = live & same & (delta < float("inf"))
        value = tl.exp(power * tl.log(delta.to(tl.float64) + EPSILON)).to(tl.float32)
        top = tl.maximum(top, tl.max(tl.where(kept, value, 0.0), 0))
        if BY_C:
            mark = tl.load(label + row + slot, mask=live, other=0)
            state = tl.load(c + lane * c_stride + slot, mask=live, other=0.0)
            value = weigh(value, mark, state, EPSILON, ROOTS, STATES, STRATA)
            tl.store(error + lane * error_stride + slot, delta, mask=kept)
        tl.store(weight + row + slot, value, mask=kept)
    tl.store(max_priority + lane, top)
    update_sums(weight, label, sums, slots, chosen, size, lane, STRATA, LEVELS, R)


@triton.jit(do_not_specialize=SIZES)
def _set(
    weight, label, sums, slots, chosen, value, mark, size,
    STRATA: tl.constexpr, LEVELS: tl.constexpr, B: tl.constexpr, R: tl.constexpr,
):  # fmt: skip
    lane = tl.program_id(0).to(tl.int64)
    row = lane * (slots // arity + 1) * arity
    for begin in range(0, size, B):
        element = begin + tl.arange(0, B)
        at, live = lane * size + element, element < size
        slot = tl.load(chosen + at, mask=live, other=-1)
        kept = (slot >= 0) & (slot < slots)
        tl.store(weight + row + slot, tl.load(value + at, mask=live, other=0.0), mask=kept)
        if STRATA > 1:
            tl.store(label + row + slot, tl.load(mark + at, mask=live, other=0), mask=kept)
    update_sums(weight, label, sums, slots, chosen, size, lane, STRATA, LEVELS, R)


@triton.jit(do_not_specialize=SIZES)
def _build(
    weight, label, sums, slots, LEVEL: tl.constexpr, STRATA: tl.constexpr, LEVELS: tl.constexpr, R: tl.constexpr
):  # fmt: skip
    """Compute all sums of one level."""
    lane, node = tl.program_id(0).to(tl.int64), tl.program_id(1).to(tl.int64) * R + tl.arange(0, R)
    live = node < level_nodes(slots, LEVEL)
    if LEVEL == 0:
        _sum_leaves(weight, label, sums, slots, lane, node, live, STRATA, LEVELS)
    else:
        _sum_nodes(sums, slots, lane, node, live, LEVEL, STRATA, LEVELS)


def on(tensor: Tensor) -> AbstractContextManager[Any]:
    """A context in which the tensor's device is current, because Triton launches on the current device."""
    if not tensor.is_cuda or tensor.device.index == torch.cuda.current_device():
        return nullcontext()
    return torch.cuda.device(tensor.device)


def at_once(count: int, slots: Tensor) -> int:
    """`count` on CUDA. Where kernels are interpreted, which costs time per operation, all of the slots [L, B]."""
    return count if slots.is_cuda else min(8192, max(16, triton.next_power_of_2(slots.shape[1])))


def blocks(slots: Tensor) -> dict[str, int]:
    """How a program that writes a lane's sums divides its work."""
    return {"B": at_once(BLOCK, slots), "R": at_once(ROWS, slots), "num_warps": 8, "num_stages": 1}


def weighting(rule: Rule) -> dict[str, float]:
    """Compile-time arguments of the kernels: how the rule computes weights."""
    roots, states = _strata_bits(rule.weighting)
    return {"EPSILON": rule.epsilon, "ROOTS": roots, "STATES": states}


@cache
def _strata_bits(weighting: tuple[Weighting, ...]) -> tuple[int, int]:
    """The strata with base·√c, and those with c, as bits."""
    roots, states = (
        sum(1 << stratum for stratum, how in enumerate(weighting) if how == wanted)
        for wanted in (Weighting.BASE_ROOT_C, Weighting.C)
    )
    return roots, states


def learn(tree: Tree, rule: Rule, slots: Tensor, ticket: Tensor, magnitude: Tensor) -> None:
    """Like `numba_tree.learn`."""
    c, error = rule.c, rule.error
    with on(slots):
        _learn[(tree.lanes,)](
            *tree, slots, ticket, magnitude, c, error, rule.exponent, rule.max_priority,
            slots.shape[1], c.stride(0), error.stride(0),
            BY_C=c.shape[1] > 0, **weighting(rule), **blocks(slots), **tree.shape,
        )  # fmt: skip


def set_weights(tree: Tree, slots: Tensor, weight: Tensor, label: Tensor) -> None:
    """Like `numba_tree.update_sums`, but if a slot occurs twice, either weight may be kept."""
    with on(slots):
        _set[(tree.lanes,)](
            tree.weight, tree.label, tree.sums, tree.slots, slots, weight, label, slots.shape[1],
            **blocks(slots), **tree.shape,
        )  # fmt: skip


def build_sums(tree: Tree) -> None:
    """Like `numba_tree.build_sums`."""
    nodes = tree.slots // ARITY + 1
    with on(tree.weight):
        for level in range(tree.shape["LEVELS"]):
            _build[tree.lanes, triton.cdiv(nodes, ROWS)](
                tree.weight, tree.label, tree.sums, tree.slots, LEVEL=level, R=ROWS, num_warps=8, **tree.shape
            )
            nodes = -(-nodes // ARITY)
