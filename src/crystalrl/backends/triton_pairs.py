"""Computations over all pairs of experiences on CUDA, with Triton.

torch needs about forty passes over matrices [L, R, N]; here it is one pass over tiles that stay in registers. Distances
are computed from differences in float32, as on CPU.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from crystalrl.backends.triton_tree import on

ROWS, COLUMNS, WIDE = 16, 64, 128
FAR = tl.constexpr(0x7F800000 << 32)
"""Key of a missing entry: an infinite distance."""


@triton.jit
def _distances(
    query, state, action, context, rows, columns, lane, slots, size, actions,
    DISCRETE: tl.constexpr, CONTEXT: tl.constexpr, SUM: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Distances of rows of `query` [L, D, N] to columns of `state`; with actions, the larger of both (SUM: their sum);
    infinite between different discrete actions or contexts, and from a slot to itself."""
    there, here = columns < slots, rows < slots
    squared = tl.zeros((ROWS, COLUMNS), tl.float32)
    for d in range(size):
        at = (lane * size + d) * slots
        mine, theirs = tl.load(query + at + rows, here, 0.0), tl.load(state + at + columns, there, 0.0)
        squared += (mine[:, None] - theirs[None, :]) * (mine[:, None] - theirs[None, :])
    distance = tl.sqrt_rn(squared)
    if actions > 0:
        action_squared = tl.zeros((ROWS, COLUMNS), tl.float32)
        for d in range(actions):
            at = (lane * actions + d) * slots
            mine, theirs = tl.load(action + at + rows, here, 0.0), tl.load(action + at + columns, there, 0.0)
            action_squared += (mine[:, None] - theirs[None, :]) * (mine[:, None] - theirs[None, :])
        if SUM:
            distance += tl.where(action_squared > 0, 2**0.5, 0.0) if DISCRETE else tl.sqrt_rn(action_squared)
        elif DISCRETE:
            distance = tl.where(action_squared > 0, float("inf"), distance)
        else:
            distance = tl.maximum(distance, tl.sqrt_rn(action_squared))
    if CONTEXT:
        mine = tl.load(context + lane * slots + rows, here, 0)
        theirs = tl.load(context + lane * slots + columns, there, 0)
        distance = tl.where(mine[:, None] != theirs[None, :], float("inf"), distance)
    return tl.where(rows[:, None] == columns[None, :], float("inf"), distance)


@triton.jit
def _tally(
    state, action, context, reward, order, marks, epsilon, delta_r, out, slots, size, actions, lanes,
    SINCE: tl.constexpr, DISCRETE: tl.constexpr, CONTEXT: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """out float32[6, L, N]: see `numba_pairs.tally`. marks uint8[L, N]: 1 occupied, 2 liquid, 4 new."""
    lane = tl.program_id(1).to(tl.int64)
    rows, base = tl.program_id(0) * ROWS + tl.arange(0, ROWS), lane * slots
    here = rows < slots
    near, differ = tl.load(epsilon + lane), tl.load(delta_r + lane)
    mine, since = tl.load(reward + base + rows, here, 0.0), tl.full((ROWS,), -1.0, tl.float32)
    if SINCE:
        oldest = tl.full((ROWS, COLUMNS), float("inf"), tl.float32)
        for start in range(0, slots, COLUMNS):
            columns = start + tl.arange(0, COLUMNS)
            there = columns < slots
            mark = tl.load(marks + base + columns, there, 0)
            arrived = tl.load(order + base + columns, there, 0.0)
            distance = _distances(
                state, state, action, context, rows, columns, lane, slots, size, actions,
                DISCRETE, CONTEXT, not SINCE, ROWS, COLUMNS,
            )  # fmt: skip
            liquid = (distance <= near) & ((mark & 3) == 3)[None, :]
            oldest = tl.minimum(oldest, tl.where(liquid, arrived[None, :], float("inf")))
        since = tl.min(oldest, 1)
    recent_count = tl.zeros((ROWS, COLUMNS), tl.float32)
    recent_sum, recent_differing, recent_new = recent_count, recent_count, recent_count
    older_count, older_sum = recent_count, recent_count
    for start in range(0, slots, COLUMNS):
        columns = start + tl.arange(0, COLUMNS)
        there = columns < slots
        mark = tl.load(marks + base + columns, there, 0)
        arrived, theirs = tl.load(order + base + columns, there, 0.0), tl.load(reward + base + columns, there, 0.0)
        distance = _distances(
            state, state, action, context, rows, columns, lane, slots, size, actions,
            DISCRETE, CONTEXT, not SINCE, ROWS, COLUMNS,
        )  # fmt: skip
        within = (distance <= near) & ((mark & 1) == 1)[None, :]
        recent = within & (arrived[None, :] >= since[:, None])
        older = within & (arrived[None, :] < since[:, None])
        differing = tl.abs(mine[:, None] - theirs[None, :]) > differ
        recent_count += tl.where(recent, 1.0, 0.0)
        recent_sum += tl.where(recent, theirs[None, :], 0.0)
        recent_differing += tl.where(recent & differing, 1.0, 0.0)
        recent_new += tl.where(recent & ((mark & 4) == 4)[None, :], 1.0, 0.0)
        older_count += tl.where(older, 1.0, 0.0)
        older_sum += tl.where(older, theirs[None, :], 0.0)
    step = lanes * slots.to(tl.int64)
    at = out + base + rows
    tl.store(at, tl.sum(recent_count, 1), here)
    tl.store(at + step, tl.sum(recent_sum, 1), here)
    tl.store(at + 2 * step, tl.sum(recent_differing, 1), here)
    tl.store(at + 3 * step, tl.sum(recent_new, 1), here)
    tl.store(at + 4 * step, tl.sum(older_count, 1), here)
    tl.store(at + 5 * step, tl.sum(older_sum, 1), here)


@triton.jit
def _nearest(
    query, state, action, context, allowed, queried, index, out, slots, size, actions, count, k,
    DISCRETE: tl.constexpr, CONTEXT: tl.constexpr, SUM: tl.constexpr, KEPT: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """index int64[L, R, k] and out float32[L, R, k]: the k nearest of the allowed columns uint8[L, N] to each queried
    row int64[R], and their distances; infinite where there is none.

    The KEPT nearest so far are int64 keys: the bits of the distance, then the column. Those of each tile are merged.
    """
    lane = tl.program_id(1).to(tl.int64)
    place = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    real = place < count
    rows = tl.load(queried + place, real, 0)
    best = tl.full((ROWS, KEPT), FAR, tl.int64)
    for start in range(0, slots, COLUMNS):
        columns = start + tl.arange(0, COLUMNS)
        there = tl.load(allowed + lane * slots + columns, columns < slots, 0) != 0
        distance = _distances(
            query, state, action, context, rows, columns, lane, slots, size, actions,
            DISCRETE, CONTEXT, SUM, ROWS, COLUMNS,
        )  # fmt: skip
        key = (distance.to(tl.int32, bitcast=True).to(tl.int64) << 32) | columns[None, :]
        key = tl.where(there[None, :] & (distance < float("inf")), key, FAR)
        if tl.min(tl.min(key, 1) - tl.max(best, 1)) < 0:
            some = -tl.topk(-key, KEPT)
            best = -tl.topk(-tl.reshape(tl.join(best, some), (ROWS, 2 * KEPT)), KEPT)
    number = tl.arange(0, KEPT)
    at = (lane * count + place)[:, None] * k + number[None, :]
    wanted = real[:, None] & (number < k)[None, :]
    tl.store(index + at, best & 0xFFFFFFFF, wanted)
    tl.store(out + at, (best >> 32).to(tl.int32).to(tl.float32, bitcast=True), wanted)


def nearest(
    query: Tensor, state: Tensor, allowed: Tensor, queried: Tensor, k: int,
    action: Tensor | None = None, context: Tensor | None = None, discrete: bool = False, summed: bool = False,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The k allowed (bool[L, N]) states [L, N, D] nearest to the queried rows int64[R] of query [L, N, D]: slots int64
    and distances float32 [L, R, k], infinite for none. The distance includes actions, if given; contexts must match.
    With `summed` the distances of states and actions are added.
    """
    lanes, slots, size = state.shape
    index = torch.empty(lanes, len(queried), k, dtype=torch.int64, device=query.device)
    distance = torch.empty(lanes, len(queried), k, dtype=torch.float32, device=query.device)
    kept = max(16, triton.next_power_of_2(k))
    with on(query):
        _nearest[(triton.cdiv(len(queried), ROWS), lanes)](
            _transposed(query), *_columns(state, action, context), allowed.to(torch.uint8), queried, index, distance,
            slots, size, 0 if action is None else action.shape[-1], len(queried), k,
            discrete, context is not None, summed, kept, ROWS, max(WIDE, kept),
        )  # fmt: skip
    return index, distance


def tally(
    since: bool, state: Tensor, action: Tensor, reward: Tensor, order: Tensor, marks: Tensor, epsilon: Tensor,
    delta_r: Tensor, context: Tensor | None, discrete: bool,
) -> Tensor:  # fmt: skip
    """float32[6, L, N]; see `numba_pairs.tally`."""
    lanes, slots, size = state.shape
    out = torch.empty(6, lanes, slots, dtype=torch.float32, device=state.device)
    with on(state):
        _tally[(triton.cdiv(slots, ROWS), lanes)](
            *_columns(state, action, context), reward.contiguous(), order, marks, epsilon.contiguous(),
            delta_r.contiguous(), out, slots, size, action.shape[-1], lanes,
            since, discrete, context is not None, ROWS, COLUMNS,
        )  # fmt: skip
    return out


def _columns(state: Tensor, action: Tensor | None, context: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    """State, action and context as the kernels read them; the state is a placeholder for those not given."""
    state = _transposed(state)
    return state, state if action is None else _transposed(action), state if context is None else context.contiguous()


def _transposed(vectors: Tensor) -> Tensor:
    """[L, D, N], so that a coordinate of adjacent slots is contiguous."""
    return vectors.transpose(1, 2).contiguous()
