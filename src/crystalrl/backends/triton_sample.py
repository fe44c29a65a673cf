"""Draws from sum trees on CUDA, by Triton: random numbers, descent and weights in two launches.

Draws do not depend on each other, so many programs share a lane.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from crystalrl.backends.splitmix import GOLDEN, MIX_1, MIX_2, signed
from crystalrl.backends.triton_tree import SIZES, Tree, arity, at_once, level_nodes, level_offset, on, to_power

golden, mix_1, mix_2 = tl.constexpr(signed(GOLDEN)), tl.constexpr(signed(MIX_1)), tl.constexpr(signed(MIX_2))
DRAWS = 16
"""Draws per program."""


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
def _choose(children, rest):
    """The child [B] of positive weight in whose interval `rest` [B] falls, and the remainder of `rest` in it.

    The running sums of a scan may decrease by a rounding error, so counting those passed is not enough.
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
    weight, label, sums, generation, slots, keys, ticks, given, stratum, count, beta, chosen, out, ticket, size,
    STREAM: tl.constexpr, GIVEN: tl.constexpr, STRATA: tl.constexpr, LEVELS: tl.constexpr, B: tl.constexpr,
):  # fmt: skip
    """Slots of draws and, in `out` float64, their share of the stratum (GIVEN uniforms), or (count·share)^(−β) with the
    slots' generations in `ticket`.
    """
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
    row = sums + (lane * STRATA + wanted) * level_offset(slots, LEVELS)
    children = tl.load(row[:, None] + level_offset(slots, LEVELS - 1) + place)
    total = tl.sum(children, 1)
    child, rest = _choose(children, uniform * total)
    node = tl.minimum(child.to(tl.int64), level_nodes(slots, LEVELS - 1) - 1)
    for down in tl.static_range(1, LEVELS):
        children = tl.load(row[:, None] + level_offset(slots, LEVELS - 1 - down) + node[:, None] * arity + place)
        child, rest = _choose(children, rest)
        node = tl.minimum(node * arity + child, level_nodes(slots, LEVELS - 1 - down) - 1)
    leaf = lane * (slots // arity + 1) * arity + node[:, None] * arity + place
    leaves = tl.load(weight + leaf).to(tl.float64)
    if STRATA > 1:
        leaves = tl.where(tl.load(label + leaf).to(tl.int64) == wanted[:, None], leaves, 0.0)
    child, rest = _choose(leaves, rest)
    slot = tl.minimum(node * arity + child, slots - 1)
    share = tl.sum(tl.where(place == child[:, None], leaves, 0.0), 1) / tl.where(total > 0, total, 1.0)
    tl.store(chosen + at, slot, mask=live)
    if GIVEN:
        tl.store(out + at, share, mask=live)
    else:
        tl.store(ticket + at, tl.load(generation + lane * (slots // arity + 1) * arity + slot), mask=live)
        number = tl.load(count + lane * STRATA + wanted)
        tl.store(out + at, to_power(share * number, -tl.load(beta + lane)), mask=live)


@triton.jit(do_not_specialize=SIZES)
def _weigh(
    raw, chosen, c, power, floor, ticks, out, size, c_stride,
    STREAM: tl.constexpr, GATED: tl.constexpr, B: tl.constexpr,
):  # fmt: skip
    """Importance weights divided by the lane's largest, times the gate; the stream advances by one tick."""
    lane = tl.program_id(0).to(tl.int64)
    largest = tl.zeros((B,), tl.float64)
    for begin in range(0, size, B):
        element = begin + tl.arange(0, B)
        largest = tl.maximum(largest, tl.load(raw + lane * size + element, mask=element < size, other=0.0))
    top = tl.max(largest, 0)
    for begin in range(0, size, B):
        element = begin + tl.arange(0, B)
        live, at = element < size, lane * size + element
        weight = (tl.load(raw + at, mask=live, other=0.0) / top).to(tl.float32)
        if GATED:
            slot = tl.load(chosen + at, mask=live, other=0)
            state = tl.load(c + lane * c_stride + slot, mask=live, other=0.0).to(tl.float64)
            plastic = to_power(1.0 - state, tl.load(power + lane))
            weight *= tl.maximum(plastic, tl.load(floor + lane)).to(tl.float32)
        tl.store(out + at, weight, mask=live)
    if lane == 0:
        tl.store(ticks + STREAM, tl.load(ticks + STREAM) + 1)


def sample(
    tree: Tree, random: tuple[Tensor, Tensor, int], stratum: Tensor, count: Tensor, beta: Tensor,
    gate: tuple[Tensor, Tensor, Tensor],
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Like `numba_tree.sample`; random = (keys i64[streams, L], ticks i64[streams], stream)."""
    keys, ticks, stream = random
    c, power, floor = gate
    lanes, size, device = *stratum.shape, stratum.device
    slots = torch.empty(lanes, size, dtype=torch.int64, device=device)
    ticket = torch.empty(lanes, size, dtype=torch.int32, device=device)
    raw = torch.empty(lanes, size, dtype=torch.float64, device=device)
    weights = torch.empty(lanes, size, dtype=torch.float32, device=device)
    block = at_once(DRAWS, slots)
    with on(slots):
        _draw[lanes, triton.cdiv(size, block)](
            *tree, keys, ticks, raw, stratum, count, beta, slots, raw, ticket, size,
            STREAM=stream, GIVEN=False, B=block, **tree.shape,
        )  # fmt: skip
        _weigh[(lanes,)](
            raw, slots, c, power, floor, ticks, weights, size, c.stride(0),
            STREAM=stream, GATED=c.shape[1] > 0, B=1024,
        )  # fmt: skip
    return slots, weights, ticket


def draw(tree: Tree, uniform: Tensor, stratum: Tensor) -> tuple[Tensor, Tensor]:
    """Like `numba_tree.descend`: slots int64[L, B] and shares float64[L, B]."""
    lanes, size = uniform.shape
    slots, shares = torch.empty_like(uniform, dtype=torch.int64), torch.empty_like(uniform)
    block = at_once(DRAWS, slots)
    with on(slots):
        _draw[lanes, triton.cdiv(size, block)](
            *tree, slots, slots, uniform, stratum, uniform, uniform, slots, shares, slots, size,
            STREAM=0, GIVEN=True, B=block, **tree.shape,
        )  # fmt: skip
    return slots, shares
