"""Triton kernels for what a memory writes: where experiences go, their rows and columns; and for TD errors."""

from __future__ import annotations

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from crystalrl.backends.triton_tree import FAN, Tree, at_once, blocks, on, phased, raise_sums, to_power

SIZES = ["slots", "size", "words", "stride", "lane_step", "step", "n_step"]
"""Arguments whose value a kernel is not compiled for."""


class Columns(NamedTuple):
    """What a slot of a crystal ledger carries: floats (c first) and bytes [·, L, N + 1]; birth, updated, env (or
    nothing) [L, N + 1]; and of the lanes: clock, number i64, filled f64[L, 3], entering f32[2, L].
    """

    floats: Tensor
    bytes: Tensor
    birth: Tensor
    updated: Tensor
    env: Tensor
    clock: Tensor
    number: Tensor
    filled: Tensor
    enter: Tensor


@triton.jit(do_not_specialize=SIZES)
def _place(valid, counter, queue, chosen, slots, size, QUEUE: tl.constexpr, B: tl.constexpr):
    """The next slots of a ring or of a queue for what is valid, else −1; `counter` counts what was placed."""
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
def _written(
    weight, label, sums, claims, slots, chosen, size, highest,
    floats, bytes, births, updated, env, clock, number, filled, enter, incoming, lane_step, step, n_step,
    EPSILON: tl.constexpr, CRYSTAL: tl.constexpr, FLOATS: tl.constexpr, ENV: tl.constexpr, RISES: tl.constexpr,
    STRATA: tl.constexpr, LEVELS: tl.constexpr, B: tl.constexpr, R: tl.constexpr,
):  # fmt: skip
    """New experiences in the slots of a lane: highest weight, next generation; with CRYSTAL all columns and counts."""
    lane, lanes = tl.program_id(0).to(tl.int64), tl.num_programs(0)
    row, width = lane * (slots // FAN + 1) * FAN, slots + 1
    top = tl.load(highest + lane)
    phase = tl.arange(0, 4)[None, :]
    change = tl.zeros((4,), tl.int32)
    birth = lane * 0
    if CRYSTAL:
        birth += tl.load(number + lane)
    for begin in range(0, size, B):
        element = begin + tl.arange(0, B)
        slot = tl.load(chosen + lane * size + element, mask=element < size, other=-1)
        kept = (slot >= 0) & (slot < slots)
        claim = claims + (row + slot) * 2
        tl.store(claim, tl.load(claim, mask=kept, other=0) + 1, mask=kept)
        value = tl.zeros((B,), tl.float32) + top
        if CRYSTAL:
            c = tl.load(incoming + lane * lane_step + element * step, mask=kept, other=0.0)
            old = tl.load(label + row + slot, mask=kept, other=255).to(tl.int32)
            new = tl.zeros((B,), tl.int32)
            if RISES:
                new += (c > tl.load(enter + lane)).to(tl.int32)
                new += ((new == 1) & (c > tl.load(enter + lanes + lane))).to(tl.int32)
            value = phased(value, new, c, EPSILON)
            tl.store(label + row + slot, new.to(tl.uint8), mask=kept)
            counted = (new[:, None] == phase).to(tl.int32) - (old[:, None] == phase).to(tl.int32)
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
    if CRYSTAL:
        tl.store(number + lane, birth)
        count = filled + lane * 3 + tl.arange(0, 4)
        there = tl.arange(0, 4) < 3
        tl.store(count, tl.load(count, mask=there, other=0.0) + change, mask=there)
    raise_sums(weight, label, sums, slots, chosen, size, lane, STRATA, LEVELS, R)


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


def place(valid: Tensor, counter: Tensor, slots: int, queue: Tensor | None = None) -> Tensor:
    """Slots int64[L, M] for valid bool[L, M]: the next of the ring, or of queue int32[L, N]; counter int64[L] moves."""
    valid = valid.contiguous().view(torch.uint8)
    chosen = torch.empty(valid.shape, dtype=torch.int64, device=valid.device)
    with on(chosen):
        _place[(valid.shape[0],)](
            valid, counter, counter if queue is None else queue, chosen, slots, valid.shape[1],
            QUEUE=queue is not None, B=at_once(256, chosen),
        )  # fmt: skip
    return chosen


def written(
    tree: Tree, slot: Tensor, highest: Tensor, columns: Columns | None = None, incoming: Tensor | None = None,
    n_step: int = 1, epsilon: float = 0.0, rises: bool = False,
) -> None:  # fmt: skip
    """New experiences in slots int64[L, M]: `highest` f32[L] is their weight; with columns, as `CrystalLedger.written`,
    of crystallization incoming f32[L, 1 or M].
    """
    given = highest[:, None] if incoming is None else incoming
    own = columns or Columns(*[highest] * 9)
    with on(slot):
        _written[(tree.lanes,)](
            *tree, slot, slot.shape[1], highest, *own,
            given, given.stride(0), given.stride(1) if given.shape[1] > 1 else 0, n_step,
            EPSILON=epsilon, CRYSTAL=columns is not None, FLOATS=own.floats.shape[0] if columns else 0,
            ENV=columns is not None and own.env.numel() > 0, RISES=rises, **blocks(slot), **tree.shape,
        )  # fmt: skip


def store_rows(rows: Tensor, slot: Tensor, out: Tensor) -> None:
    """Rows int64[L, M, W] to slots int64[L, M] of out int64[L·stride, W]; a negative slot is skipped."""
    lanes, size, words = rows.shape
    with on(slot):
        _store_rows[lanes, size](
            rows, slot, out, size, words, out.shape[0] // lanes,
            W=min(1024, triton.next_power_of_2(words)), num_warps=1,
        )  # fmt: skip


def magnitude(error: Tensor, slot: Tensor, slots: int, corrupt: Tensor) -> Tensor:
    """|error| float32, both [L, B]; `corrupt` (bool) becomes true where one is not finite or a slot does not exist."""
    out = torch.empty(error.shape, dtype=torch.float32, device=error.device)
    flag, size = corrupt.view(torch.uint8), error.numel()
    with on(out):
        _magnitude[(triton.cdiv(size, 1024),)](error.contiguous(), slot.contiguous(), out, flag, slots, size, B=1024)
    return out


def probe(device: torch.device) -> None:
    """Raise whatever keeps Triton from working here: no C compiler, say, or a device too old."""
    magnitude(
        torch.zeros(1, 1, device=device),
        torch.zeros(1, 1, dtype=torch.int64, device=device),
        1,
        torch.zeros((), dtype=torch.bool, device=device),
    )


def strength(c: Tensor, flags: Tensor, slot: Tensor, kappa: Tensor, exponent: Tensor, evaluated: int) -> Tensor:
    """κ·c^p float32[L, B] of slots int64[L, B], 0 where the flag is missing; c and flags [L, N] of one stride."""
    out = torch.empty(slot.shape, dtype=torch.float32, device=slot.device)
    with on(out):
        _strength[slot.shape[0], triton.cdiv(slot.shape[1], 256)](
            c, flags, slot, kappa, exponent, out, slot.shape[1], c.stride(0), EVALUATED=evaluated, B=256
        )
    return out
