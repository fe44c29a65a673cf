"""Writes to slots on CUDA, with Triton: allocation, rows, columns, TD errors and anchor strengths. See `Writes`."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from crystalrl.backends.protocols import Rule, SlotColumns
from crystalrl.backends.torch_writes import take
from crystalrl.backends.triton_tree import Tree, arity, at_once, blocks, on, to_power, update_sums, weigh, weighting

__all__ = ["allocate", "commit", "magnitude", "probe", "store_rows", "strength", "take"]

SIZES = ["slots", "size", "words", "stride", "lane_step", "step", "n_step"]
"""Arguments that a kernel is not specialised for."""


@triton.jit(do_not_specialize=SIZES)
def _allocate(valid, counter, queue, chosen, slots, size, QUEUE: tl.constexpr, B: tl.constexpr):
    """The next slots of a ring or of a queue where valid, else −1; `counter` counts them."""
    lane = tl.program_id(0).to(tl.int64)
    first = tl.load(counter + lane)
    for begin in range(0, size, B):
        element = begin + tl.arange(0, B)
        live, at = element < size, lane * size + element
        wanted = (tl.load(valid + at, mask=live, other=0) != 0).to(tl.int64)
        number = tl.maximum(first + tl.cumsum(wanted, 0) - 1, 0)
        slot = number % slots
        if QUEUE:
            slot = tl.load(queue + lane * slots + tl.minimum(number, slots - 1)).to(tl.int64)
        tl.store(chosen + at, tl.where(wanted > 0, slot, -1), mask=live)
        first += tl.sum(wanted, 0)
    tl.store(counter + lane, first)


@triton.jit(do_not_specialize=SIZES)
def _commit(
    weight, label, sums, generation, slots, chosen, size, max_priority,
    floats, bytes, births, updated, env, clock, number, filled, enter, given, lane_step, step, n_step,
    COLUMNS: tl.constexpr, FLOATS: tl.constexpr, ENV: tl.constexpr, GIVEN: tl.constexpr, MARKS: tl.constexpr,
    EPSILON: tl.constexpr, ROOTS: tl.constexpr, STATES: tl.constexpr,
    STRATA: tl.constexpr, LEVELS: tl.constexpr, B: tl.constexpr, R: tl.constexpr,
):  # fmt: skip
    """Register new experiences of a lane: largest weight, next generation; with COLUMNS also columns and counts.

    GIVEN: c is given, not zero; MARKS is a power of two ≥ STRATA.
    """
    lane, lanes = tl.program_id(0).to(tl.int64), tl.num_programs(0)
    row, width = lane * (slots // arity + 1) * arity, slots + 1
    top = tl.load(max_priority + lane)
    stratum = tl.arange(0, MARKS)[None, :]
    change = tl.zeros((MARKS,), tl.int32)
    birth = lane * 0
    if COLUMNS:
        birth += tl.load(number + lane)
    for begin in range(0, size, B):
        element = begin + tl.arange(0, B)
        slot = tl.load(chosen + lane * size + element, mask=element < size, other=-1)
        kept = (slot >= 0) & (slot < slots)
        tl.store(generation + row + slot, tl.load(generation + row + slot, mask=kept, other=0) + 1, mask=kept)
        value = tl.zeros((B,), tl.float32) + top
        if COLUMNS:
            c, new = tl.zeros((B,), tl.float32), tl.zeros((B,), tl.int32)
            if GIVEN:
                c = tl.load(given + lane * lane_step + element * step, mask=kept, other=0.0)
                for s in tl.static_range(STRATA - 1):
                    new += (c > tl.load(enter + s * lanes + lane)).to(tl.int32)
            old = tl.load(label + row + slot, mask=kept, other=255).to(tl.int32)
            value = weigh(value, new, c, EPSILON, ROOTS, STATES, STRATA)
            tl.store(label + row + slot, new.to(tl.uint8), mask=kept)
            counted = (new[:, None] == stratum).to(tl.int32) - (old[:, None] == stratum).to(tl.int32)
            change += tl.sum(tl.where(kept[:, None], counted, 0), 0)
            at = lane * width + slot
            tl.store(floats + at, c, mask=kept)
            for column in tl.static_range(1, FLOATS):
                tl.store(floats + column * lanes.to(tl.int64) * width + at, 0.0, mask=kept)
            for column in tl.static_range(2):
                tl.store(bytes + column * lanes.to(tl.int64) * width + at, 0, mask=kept)
            rank = tl.cumsum(kept.to(tl.int64), 0)
            tl.store(births + at, birth + rank - 1, mask=kept)
            tl.store(updated + at, tl.load(clock + lane).to(tl.int32), mask=kept)
            if ENV:
                tl.store(env + at, element // n_step, mask=kept)
            birth += tl.sum(kept.to(tl.int64), 0)
        tl.store(weight + row + slot, value, mask=kept)
    if COLUMNS:
        tl.store(number + lane, birth)
        count = filled + lane * STRATA + tl.arange(0, MARKS)
        there = tl.arange(0, MARKS) < STRATA
        tl.store(count, tl.load(count, mask=there, other=0.0) + change, mask=there)
    update_sums(weight, label, sums, slots, chosen, size, lane, STRATA, LEVELS, R)


@triton.jit(do_not_specialize=SIZES)
def _store_rows(rows, chosen, out, size, words, stride, W: tl.constexpr):
    lane, element = tl.program_id(0).to(tl.int64), tl.program_id(1)
    slot = tl.load(chosen + lane * size + element)
    for begin in range(0, words, W):
        word = begin + tl.arange(0, W)
        value = tl.load(rows + (lane * size + element) * words + word, mask=word < words, other=0)
        tl.store(out + (lane * stride + slot) * words + word, value, mask=(word < words) & (slot >= 0))


@triton.jit(do_not_specialize=SIZES)
def _magnitude(error, chosen, out, corrupt, slots, size, B: tl.constexpr):
    element = tl.program_id(0) * B + tl.arange(0, B)
    live = element < size
    delta = tl.abs(tl.load(error + element, mask=live, other=0.0).to(tl.float32))
    slot = tl.load(chosen + element, mask=live, other=0)
    tl.store(out + element, delta, mask=live)
    good = (delta < float("inf")) & (slot >= 0) & (slot < slots)
    tl.store(corrupt + element * 0, 1, mask=live & (good == 0))


@triton.jit(do_not_specialize=SIZES)
def _strength(c, flags, chosen, kappa, exponent, out, size, stride, EVALUATED: tl.constexpr, B: tl.constexpr):
    lane, element = tl.program_id(0).to(tl.int64), tl.program_id(1) * B + tl.arange(0, B)
    live, at = element < size, lane * size + element
    where = lane * stride + tl.load(chosen + at, mask=live, other=0)
    state = tl.load(c + where, mask=live, other=0.0).to(tl.float64)
    pull = tl.load(kappa + lane) * to_power(state, tl.load(exponent + lane))
    seen = (tl.load(flags + where, mask=live, other=0) & EVALUATED) != 0
    tl.store(out + at, tl.where(seen, pull, 0.0).to(tl.float32), mask=live)


def allocate(valid: Tensor, counter: Tensor, slots: int, queue: Tensor | None = None) -> Tensor:
    """See `Writes`."""
    valid = valid.contiguous().view(torch.uint8)
    chosen = torch.empty(valid.shape, dtype=torch.int64, device=valid.device)
    with on(chosen):
        _allocate[(valid.shape[0],)](
            valid, counter, counter if queue is None else queue, chosen, slots, valid.shape[1],
            QUEUE=queue is not None, B=at_once(256, chosen),
        )  # fmt: skip
    return chosen


def commit(tree: Tree, slots: Tensor, rule: Rule, columns: SlotColumns | None, c: Tensor | None) -> None:
    """See `SumTree.commit`."""
    top = rule.max_priority  # also a placeholder for arguments that are not read
    given = top[:, None] if c is None else c
    with on(slots):
        _commit[(tree.lanes,)](
            *tree, slots, slots.shape[1], top, *([top] * 9 if columns is None else columns.tensors),
            given, given.stride(0), given.stride(1) if given.shape[1] > 1 else 0, columns.n_step if columns else 1,
            COLUMNS=columns is not None, FLOATS=0 if columns is None else len(columns.floats),
            ENV=columns is not None and columns.env.numel() > 0, GIVEN=c is not None,
            MARKS=max(4, triton.next_power_of_2(len(rule.weighting))),
            **weighting(rule), **blocks(slots), **tree.shape,
        )  # fmt: skip


def store_rows(rows: Tensor, slots: Tensor, out: Tensor) -> None:
    """See `Writes`."""
    lanes, size, words = rows.shape
    with on(slots):
        _store_rows[lanes, size](
            rows.contiguous(), slots, out, size, words, out.shape[0] // lanes,
            W=min(1024, triton.next_power_of_2(words)), num_warps=1,
        )  # fmt: skip


def magnitude(error: Tensor, slots: Tensor, capacity: int, corrupt: Tensor) -> Tensor:
    """See `Writes`."""
    out = torch.empty(error.shape, dtype=torch.float32, device=error.device)
    flag, size = corrupt.view(torch.uint8), error.numel()
    with on(out):
        _magnitude[(triton.cdiv(size, 1024),)](
            error.contiguous(), slots.contiguous(), out, flag, capacity, size, B=1024
        )
    return out


def probe(device: torch.device) -> None:
    """Raise an error if Triton does not work on a device, for example without a C compiler."""
    magnitude(
        torch.zeros(1, 1, dtype=torch.float32, device=device),
        torch.zeros(1, 1, dtype=torch.int64, device=device),
        1,
        torch.zeros((), dtype=torch.bool, device=device),
    )


def strength(c: Tensor, flags: Tensor, slots: Tensor, kappa: Tensor, exponent: Tensor, evaluated: int) -> Tensor:
    """See `Writes`."""
    out = torch.empty(slots.shape, dtype=torch.float32, device=slots.device)
    with on(out):
        _strength[slots.shape[0], triton.cdiv(slots.shape[1], 256)](
            c, flags, slots, kappa, exponent, out, slots.shape[1], c.stride(0), EVALUATED=evaluated, B=256
        )
    return out
