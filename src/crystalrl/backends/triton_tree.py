"""Triton kernels for trees of draw weights on CUDA: a draw is two launches, what was learnt one, a rebuild one a level.

A tree has a fan of 64, and its highest level is one family. Numbers that need double precision are never given as float
arguments, which Triton takes for float32.

One program has all writes to a lane's sums: it goes up level by level, and a barrier makes what one level wrote visible
to the next. Draws do not depend on each other, so there many programs share a lane.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from crystalrl.backends import GOLDEN, MIX_1, MIX_2, UNLABELLED, signed

TOP = 64
"""The highest level of a tree has at most so many nodes."""
FAN, SHIFT = tl.constexpr(64), tl.constexpr(6)
golden, mix_1, mix_2 = tl.constexpr(signed(GOLDEN)), tl.constexpr(signed(MIX_1)), tl.constexpr(signed(MIX_2))
unlabelled = tl.constexpr(UNLABELLED)
DRAWS, BLOCK, ROWS = 16, 256, 64
"""Draws of a program; slots that are read at once; families that are summed at once."""
SIZES = ["slots", "size", "c_stride", "error_stride"]
"""Arguments whose value a kernel is not compiled for."""


class Tree(NamedTuple):
    """weight f32[L, N], label u8[L, N or 0], sums f64[L, S, M], claims i32[L, N, 2]; slots without padding."""

    weight: Tensor
    label: Tensor
    sums: Tensor
    claims: Tensor
    slots: int

    @property
    def lanes(self) -> int:
        return self.weight.shape[0]

    @property
    def shape(self) -> dict[str, int]:
        """What kernels are compiled for: strata, and levels above the leaves."""
        size, levels = self.slots // 64 + 1, 1
        while size > TOP:
            size, levels = -(-size // 64), levels + 1
        return {"STRATA": self.sums.shape[1], "LEVELS": levels}


@triton.jit
def _mix(x):
    """The SplitMix64 output function on int64, whose right shifts are masked."""
    x = (x ^ ((x >> 30) & ((1 << 34) - 1))) * mix_1
    x = (x ^ ((x >> 27) & ((1 << 37) - 1))) * mix_2
    return x ^ ((x >> 31) & ((1 << 33) - 1))


@triton.jit
def _uniform(key, tick, element):
    bits = _mix(_mix(key + (tick + 1) * golden) + (element + 1) * golden)
    return ((bits >> 11) & ((1 << 53) - 1)).to(tl.float64) * 2.0**-53


@triton.jit
def to_power(base, exponent):
    """base ≥ 0 to the exponent ≥ 0 or, if base > 0, any; float64."""
    value = tl.exp(exponent * tl.log(tl.where(base > 0, base, 1.0)))
    return tl.where(base > 0, value, tl.where(exponent == 0.0, 1.0, 0.0))


@triton.jit
def _nodes(slots, LEVEL: tl.constexpr):
    """Nodes of a level; level 0 is the first above the leaves."""
    size = slots // FAN + 1
    for _ in tl.static_range(LEVEL):
        size = (size + FAN - 1) // FAN
    return size


@triton.jit
def _offset(slots, LEVEL: tl.constexpr):
    """Where a level begins in `sums`; each is padded to whole families."""
    size = slots // FAN + 1
    at = size * 0
    for _ in tl.static_range(LEVEL):
        size = (size + FAN - 1) // FAN
        at += size * FAN
    return at


@triton.jit
def _choose(children, rest):
    """The child [B] of positive weight in whose interval `rest` [B] falls, and what remains of `rest` inside it.

    Running sums of a scan may fall by a rounding error, so that counting those passed is not enough.
    """
    running = tl.cumsum(children, 1)
    there = children > 0
    last = tl.max(tl.where(there, running, 0.0), 1)
    rest = tl.minimum(rest, last - last * 2.0**-53)[:, None]
    place = tl.arange(0, 64)[None, :]
    child = tl.min(tl.where(there & (running > rest), place, 63), 1)
    passed = (place < child[:, None]) & (running <= rest)
    before = tl.max(tl.where(passed, running, 0.0), 1)
    return child, tl.max(rest, 1) - before


@triton.jit(do_not_specialize=SIZES)
def _draw(
    weight, label, sums, claims, slots, keys, ticks, given, stratum, count, beta, chosen, out, size,
    STREAM: tl.constexpr, GIVEN: tl.constexpr, STRATA: tl.constexpr, LEVELS: tl.constexpr, B: tl.constexpr,
):  # fmt: skip
    """Slots of draws and, in `out`, their share of the stratum (uniforms given) or (count·share)^(−β), float64."""
    lane, element = tl.program_id(0).to(tl.int64), tl.program_id(1) * B + tl.arange(0, B)
    live, at, place = element < size, lane * size + element, tl.arange(0, 64)[None, :]
    if GIVEN:
        uniform = tl.load(given + at, mask=live, other=0.0)
    else:
        start = lane + STREAM * tl.num_programs(0) + element * 0
        uniform = _uniform(tl.load(keys + start), tl.load(ticks + STREAM + element * 0), element.to(tl.int64))
    wanted = element.to(tl.int64) * 0
    if STRATA > 1:
        wanted = tl.load(stratum + at, mask=live, other=0).to(tl.int64)
    row = sums + (lane * STRATA + wanted) * _offset(slots, LEVELS)
    children = tl.load(row[:, None] + _offset(slots, LEVELS - 1) + place)
    total = tl.sum(children, 1)
    child, rest = _choose(children, uniform * total)
    node = tl.minimum(child.to(tl.int64), _nodes(slots, LEVELS - 1) - 1)
    for down in tl.static_range(1, LEVELS):
        children = tl.load(row[:, None] + _offset(slots, LEVELS - 1 - down) + node[:, None] * FAN + place)
        child, rest = _choose(children, rest)
        node = tl.minimum(node * FAN + child, _nodes(slots, LEVELS - 1 - down) - 1)
    leaf = lane * (slots // FAN + 1) * FAN + node[:, None] * FAN + place
    leaves = tl.load(weight + leaf).to(tl.float64)
    if STRATA > 1:
        leaves = tl.where(tl.load(label + leaf).to(tl.int64) == wanted[:, None], leaves, 0.0)
    child, rest = _choose(leaves, rest)
    slot = tl.minimum(node * FAN + child, slots - 1)
    share = tl.sum(tl.where(place == child[:, None], leaves, 0.0), 1) / tl.where(total > 0, total, 1.0)
    claim = claims + (lane * (slots // FAN + 1) * FAN + slot) * 2
    tl.store(claim + 1, tl.load(claim), mask=live)
    tl.store(chosen + at, slot, mask=live)
    if GIVEN:
        tl.store(out + at, share, mask=live)
    else:
        number = tl.load(count + lane * STRATA + wanted)
        tl.store(out + at, to_power(share * number, -tl.load(beta + lane)), mask=live)


@triton.jit(do_not_specialize=SIZES)
def _weigh(
    raw, chosen, c, power, floor, ticks, out, size, c_stride,
    STREAM: tl.constexpr, GATED: tl.constexpr, B: tl.constexpr,
):  # fmt: skip
    """Importance weights over their largest in the lane, times the gate; and the tick."""
    lane = tl.program_id(0).to(tl.int64)
    highest = tl.zeros((B,), tl.float64)
    for begin in range(0, size, B):
        element = begin + tl.arange(0, B)
        highest = tl.maximum(highest, tl.load(raw + lane * size + element, mask=element < size, other=0.0))
    largest = tl.max(highest, 0)
    for begin in range(0, size, B):
        element = begin + tl.arange(0, B)
        live, at = element < size, lane * size + element
        weight = (tl.load(raw + at, mask=live, other=0.0) / largest).to(tl.float32)
        if GATED:
            slot = tl.load(chosen + at, mask=live, other=0)
            state = tl.load(c + lane * c_stride + slot, mask=live, other=0.0).to(tl.float64)
            plastic = to_power(1.0 - state, tl.load(power + lane))
            weight *= tl.maximum(plastic, tl.load(floor + lane)).to(tl.float32)
        tl.store(out + at, weight, mask=live)
    if lane == 0:
        tl.store(ticks + STREAM, tl.load(ticks + STREAM) + 1)


@triton.jit
def _sum_leaves(weight, label, sums, slots, lane, node, live, STRATA: tl.constexpr, LEVELS: tl.constexpr):
    """Sums of the first level: of the leaves of nodes [B], where live."""
    leaf = lane * (slots // FAN + 1) * FAN + node[:, None] * FAN + tl.arange(0, 64)[None, :]
    leaves = tl.load(weight + leaf, mask=live[:, None], other=0.0).to(tl.float64)
    row = sums + lane * STRATA * _offset(slots, LEVELS)
    if STRATA == 1:
        tl.store(row + node, tl.sum(leaves, 1), mask=live)
    else:
        mark = tl.load(label + leaf, mask=live[:, None], other=255)
        for s in tl.static_range(STRATA):
            own = tl.sum(tl.where(mark == s, leaves, 0.0), 1)
            tl.store(row + s * _offset(slots, LEVELS) + node, own, mask=live)


@triton.jit
def _sum_nodes(sums, slots, lane, node, live, LEVEL: tl.constexpr, STRATA: tl.constexpr, LEVELS: tl.constexpr):
    """Sums of a level above the first: of the children of nodes [B], where live."""
    child = _offset(slots, LEVEL - 1) + node[:, None] * FAN + tl.arange(0, 64)[None, :]
    for s in tl.static_range(STRATA):
        row = sums + (lane * STRATA + s) * _offset(slots, LEVELS)
        own = tl.sum(tl.load(row + child, mask=live[:, None], other=0.0), 1)
        tl.store(row + _offset(slots, LEVEL) + node, own, mask=live)


@triton.jit
def raise_sums(
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
        _sum_leaves(weight, label, sums, slots, lane, slot >> SHIFT, live, STRATA, LEVELS)
    for level in tl.static_range(1, LEVELS):
        tl.debug_barrier()
        nodes = _nodes(slots, level)
        count = tl.minimum(nodes, size)
        for begin in range(0, count, R):
            element = begin + tl.arange(0, R)
            slot = tl.load(chosen + lane * size + element, mask=element < count, other=-1)
            node = tl.where(nodes <= size, element.to(tl.int64), slot >> (SHIFT * (level + 1)))
            live = (element < count) & ((nodes <= size) | ((slot >= 0) & (slot < slots)))
            _sum_nodes(sums, slots, lane, node, live, level, STRATA, LEVELS)


@triton.jit
def phased(base, mark, state, EPSILON: tl.constexpr):
    """Draw weights float32 of base float32, labels and c: as `draw.Learning.weight`."""
    glass = base * tl.sqrt(state.to(tl.float64)).to(tl.float32)
    value = tl.where(mark == 2, state, tl.where(mark == 1, glass, base))
    return tl.where(mark == unlabelled, 0.0, tl.maximum(value, EPSILON))


@triton.jit(do_not_specialize=SIZES)
def _learn(
    weight, label, sums, claims, slots, chosen, magnitude, c, error, exponent, highest, size, c_stride, error_stride,
    EPSILON: tl.constexpr, PHASES: tl.constexpr, STRATA: tl.constexpr, LEVELS: tl.constexpr,
    B: tl.constexpr, R: tl.constexpr,
):  # fmt: skip
    """Reweigh the drawn slots of a lane, except those renewed since, or of an error that is not finite (`magnitude`
    tells of it); all claims are read before any is given up.
    """
    lane = tl.program_id(0).to(tl.int64)
    row = lane * (slots // FAN + 1) * FAN
    top, power = tl.load(highest + lane), tl.load(exponent + lane)
    for begin in range(0, size, B):
        element = begin + tl.arange(0, B)
        slot = tl.load(chosen + lane * size + element, mask=element < size, other=-1)
        live = (slot >= 0) & (slot < slots)
        claim = claims + (row + slot) * 2
        generation, claimed = tl.load(claim, mask=live, other=0), tl.load(claim + 1, mask=live, other=-1)
        delta = tl.load(magnitude + lane * size + element, mask=live, other=0.0)
        kept = live & ((claimed < 0) | (claimed == generation)) & (delta < float("inf"))
        value = tl.exp(power * tl.log(delta.to(tl.float64) + EPSILON)).to(tl.float32)
        top = tl.maximum(top, tl.max(tl.where(kept, value, 0.0), 0))
        if PHASES:
            mark = tl.load(label + row + slot, mask=live, other=0)
            state = tl.load(c + lane * c_stride + slot, mask=live, other=0.0)
            value = phased(value, mark, state, EPSILON)
            tl.store(error + lane * error_stride + slot, delta, mask=kept)
        tl.store(weight + row + slot, value, mask=kept)
    tl.store(highest + lane, top)
    tl.debug_barrier()
    for begin in range(0, size, B):
        element = begin + tl.arange(0, B)
        slot = tl.load(chosen + lane * size + element, mask=element < size, other=-1)
        tl.store(claims + (row + slot) * 2 + 1, -1, mask=(slot >= 0) & (slot < slots))
    raise_sums(weight, label, sums, slots, chosen, size, lane, STRATA, LEVELS, R)


@triton.jit(do_not_specialize=SIZES)
def _set(
    weight, label, sums, slots, chosen, value, mark, size,
    STRATA: tl.constexpr, LEVELS: tl.constexpr, B: tl.constexpr, R: tl.constexpr,
):  # fmt: skip
    lane = tl.program_id(0).to(tl.int64)
    row = lane * (slots // FAN + 1) * FAN
    for begin in range(0, size, B):
        element = begin + tl.arange(0, B)
        at, live = lane * size + element, element < size
        slot = tl.load(chosen + at, mask=live, other=-1)
        kept = (slot >= 0) & (slot < slots)
        tl.store(weight + row + slot, tl.load(value + at, mask=live, other=0.0), mask=kept)
        if STRATA > 1:
            tl.store(label + row + slot, tl.load(mark + at, mask=live, other=0), mask=kept)
    raise_sums(weight, label, sums, slots, chosen, size, lane, STRATA, LEVELS, R)


@triton.jit(do_not_specialize=SIZES)
def _build(
    weight, label, sums, slots, LEVEL: tl.constexpr, STRATA: tl.constexpr, LEVELS: tl.constexpr, R: tl.constexpr
):  # fmt: skip
    """All sums of one level."""
    lane, node = tl.program_id(0).to(tl.int64), tl.program_id(1).to(tl.int64) * R + tl.arange(0, R)
    live = node < _nodes(slots, LEVEL)
    if LEVEL == 0:
        _sum_leaves(weight, label, sums, slots, lane, node, live, STRATA, LEVELS)
    else:
        _sum_nodes(sums, slots, lane, node, live, LEVEL, STRATA, LEVELS)


def on(tensor: Tensor) -> AbstractContextManager[Any]:
    """Triton launches on the current device: make it the tensor's."""
    if not tensor.is_cuda or tensor.device.index == torch.cuda.current_device():
        return nullcontext()
    return torch.cuda.device(tensor.device)


def at_once(count: int, draws: Tensor) -> int:
    """So many on CUDA; where kernels are interpreted on CPU, which pays per operation, all of the draws [L, B]."""
    return count if draws.is_cuda else min(8192, max(16, triton.next_power_of_2(draws.shape[1])))


def blocks(slot: Tensor) -> dict[str, int]:
    """How a program that writes a lane's sums cuts its work."""
    return {"B": at_once(BLOCK, slot), "R": at_once(ROWS, slot), "num_warps": 8, "num_stages": 1}


def sample(
    tree: Tree, random: tuple[Tensor, Tensor, int], stratum: Tensor, count: Tensor, beta: Tensor,
    gate: tuple[Tensor, Tensor, Tensor],
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """As `compiled.sample`; random = (keys i64[streams, L], ticks i64[streams], stream)."""
    keys, ticks, stream = random
    c, power, floor = gate
    lanes, size, device = *stratum.shape, stratum.device
    slots = torch.empty(lanes, size, dtype=torch.int64, device=device)
    raw = torch.empty(lanes, size, dtype=torch.float64, device=device)
    weights = torch.empty(lanes, size, dtype=torch.float32, device=device)
    block = at_once(DRAWS, slots)
    with on(slots):
        _draw[lanes, triton.cdiv(size, block)](
            *tree, keys, ticks, raw, stratum, count, beta, slots, raw, size,
            STREAM=stream, GIVEN=False, B=block, **tree.shape,
        )  # fmt: skip
        _weigh[(lanes,)](
            raw, slots, c, power, floor, ticks, weights, size, c.stride(0),
            STREAM=stream, GATED=c.shape[1] > 0, B=1024,
        )  # fmt: skip
    return slots, weights


def descend(tree: Tree, uniform: Tensor, stratum: Tensor) -> tuple[Tensor, Tensor]:
    """As `compiled.descend`: slots int64[L, B] and shares float64[L, B]."""
    lanes, size = uniform.shape
    slots, shares = torch.empty_like(uniform, dtype=torch.int64), torch.empty_like(uniform)
    block = at_once(DRAWS, slots)
    with on(slots):
        _draw[lanes, triton.cdiv(size, block)](
            *tree, slots, slots, uniform, stratum, uniform, uniform, slots, shares, size,
            STREAM=0, GIVEN=True, B=block, **tree.shape,
        )  # fmt: skip
    return slots, shares


def learn(
    tree: Tree, state: tuple[Tensor, Tensor], slot: Tensor, magnitude: Tensor,
    epsilon: float, exponent: Tensor, highest: Tensor,
) -> None:  # fmt: skip
    """As `compiled.learn`."""
    c, error = state
    with on(slot):
        _learn[(tree.lanes,)](
            *tree, slot, magnitude, c, error, exponent, highest, slot.shape[1], c.stride(0), error.stride(0),
            EPSILON=epsilon, PHASES=c.shape[1] > 0, **blocks(slot), **tree.shape,
        )  # fmt: skip


def set_weights(tree: Tree, slot: Tensor, value: Tensor, label: Tensor) -> None:
    """As `compiled.raise_sums`, but of a slot that occurs twice one counts, not always the last."""
    with on(slot):
        _set[(tree.lanes,)](
            tree.weight, tree.label, tree.sums, tree.slots, slot, value, label, slot.shape[1],
            **blocks(slot), **tree.shape,
        )  # fmt: skip


def build_sums(tree: Tree) -> None:
    """As `compiled.build_sums`."""
    nodes = tree.slots // 64 + 1
    with on(tree.weight):
        for level in range(tree.shape["LEVELS"]):
            _build[tree.lanes, triton.cdiv(nodes, ROWS)](
                tree.weight, tree.label, tree.sums, tree.slots, LEVEL=level, R=ROWS, num_warps=8, **tree.shape
            )
            nodes = -(-nodes // 64)
