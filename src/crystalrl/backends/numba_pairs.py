"""Computations over all pairs of experiences on CPU, with numba; `triton_pairs` has the same functions for CUDA.

torch needs about forty passes over matrices [L, R, N]. Here, a row's distances to a tile of columns stay in the L1
cache, and only near columns are examined further. Sums of squares run over the dimensions in order, so a distance has
the same bits wherever it is computed in this module.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from crystalrl.backends.numba_jit import jit

TILE = 512
"""Columns per tile."""
SLACK = np.float32(1 + 1e-5)
"""Columns within ε² times this are compared exactly."""
OCCUPIED, LIQUID, NEW, EXAMINED = 1, 2, 4, 8
"""Bits of a slot's marks; NEW: unevaluated."""
ROOT = np.float32(2**0.5)


@jit
def _squares(vector: Any, transposed: Any, first: int, count: int, out: Any) -> None:
    """Squared distances of a vector [D] to `count` columns of transposed [D, N], starting at `first`."""
    out[:count] = 0
    for d in range(len(vector)):
        mine, theirs = vector[d], transposed[d, first : first + count]
        for c in range(count):
            gap = theirs[c] - mine
            out[c] += gap * gap


@jit
def _squared_action_distance(action: Any, row: int, column: int) -> Any:
    """Squared distance of two actions of action [N, A]."""
    total = np.float32(0)
    for d in range(action.shape[1]):
        gap = action[row, d] - action[column, d]
        total += gap * gap
    return total


@jit
def _near(
    row: int, transposed: Any, action: Any, context: Any, marks: Any, epsilon: Any, how: Any, scratch: Any
) -> int:
    """Write the occupied columns within ε of a row to scratch[0], in order, and return their number.

    how = (discrete, summed, contexts): whether actions are codes, whether their distance is added to that of the states
    (otherwise it must also be within ε), and whether contexts are compared. scratch = (neighbours, squares of a tile, a
    vector).
    """
    discrete, summed, contexts = how
    neighbours, squares, vector = scratch
    for d in range(len(vector)):
        vector[d] = transposed[d, row]
    found, limit = 0, epsilon * epsilon * SLACK
    for first in range(0, transposed.shape[1], TILE):
        count = min(TILE, transposed.shape[1] - first)
        _squares(vector, transposed, first, count, squares)
        for c in range(count):
            if squares[c] > limit:
                continue
            column, distance = first + c, np.sqrt(squares[c])
            if column == row or not marks[column] & OCCUPIED:
                continue
            if contexts and context[column] != context[row]:
                continue
            action_distance = np.sqrt(_squared_action_distance(action, row, column))
            if summed:
                distance += (ROOT if action_distance > 0 else np.float32(0)) if discrete else action_distance
            elif action_distance > (np.float32(0) if discrete else epsilon):
                continue
            if distance <= epsilon:
                neighbours[found] = column
                found += 1
    return found


@jit
def _tally_row(
    row: int, neighbours: Any, since: bool, marks: Any, reward: Any, order: Any, delta_r: Any, out: Any
) -> None:
    """One row of `tally`."""
    oldest = np.float32(np.inf if since else -1)
    if since:
        for j in neighbours:
            if marks[j] & LIQUID:
                oldest = min(oldest, order[j])
    recent, differing, new, older, recent_sum, older_sum = 0, 0, 0, 0, 0.0, 0.0
    for j in neighbours:
        if order[j] >= oldest:
            recent += 1
            recent_sum += reward[j]
            differing += abs(reward[row] - reward[j]) > delta_r
            new += (marks[j] & NEW) > 0
        else:
            older += 1
            older_sum += reward[j]
    out[0, row], out[1, row], out[2, row], out[3, row] = recent, recent_sum, differing, new
    out[4, row], out[5, row] = older, older_sum


@jit
def _vote_row(row: int, neighbours: Any, least: int, reward: Any, order: Any, delta_r: Any, out: Any) -> None:
    """One row of `votes`."""
    newer = 0
    for j in neighbours:
        newer += order[j] > order[row]
    limit, latest, differing, older_differing = max((newer + 1) // 2, least), 0, 0, 0
    for j in neighbours:
        differs = abs(reward[row] - reward[j]) > delta_r
        if order[j] <= order[row]:
            older_differing += differs
        elif latest < limit:
            latest += 1
            differing += differs
    out[0, row], out[1, row], out[2, row], out[3, row] = latest, differing, len(neighbours) - newer, older_differing


@jit
def _count_lane(
    transposed: Any, labels: Any, reward: Any, order: Any, scales: Any, how: Any, rule: Any, out: Any
) -> None:
    """One lane of `tally`, rule = (since, 0), or of `votes`, rule = (False, least)."""
    action, context, marks = labels
    epsilon, delta_r = scales
    since, least = rule
    neighbours, squares = np.empty(transposed.shape[1], np.int64), np.empty(TILE, np.float32)
    scratch = (neighbours, squares, np.empty(transposed.shape[0], np.float32))
    for row in range(transposed.shape[1]):
        if not marks[row] & EXAMINED:
            continue
        near = neighbours[: _near(row, transposed, action, context, marks, epsilon, how, scratch)]
        if least:
            _vote_row(row, near, least, reward, order, delta_r, out)
        else:
            _tally_row(row, near, since, marks, reward, order, delta_r, out)


@jit
def _nearest(
    query: Any, transposed: Any, allowed: Any, queried: Any, labels: Any, how: Any, index: Any, out: Any
) -> None:
    """See `nearest`; one lane."""
    action, context = labels
    discrete, has_action, contexts = how
    k, slots, squares = index.shape[1], transposed.shape[1], np.empty(TILE, np.float32)
    vector, far = np.empty(transposed.shape[0], np.float32), np.empty(k, np.float32)
    for r in range(len(queried)):
        row, neighbours = queried[r], index[r]
        vector[:] = query[row]
        far[:], neighbours[:] = np.inf, 0
        for first in range(0, slots, TILE):
            count = min(TILE, slots - first)
            _squares(vector, transposed, first, count, squares)
            for c in range(count):
                squared, column = squares[c], first + c
                if squared >= far[k - 1] or column == row or not allowed[column]:
                    continue
                if contexts and context[column] != context[row]:
                    continue
                if has_action:
                    action_squared = _squared_action_distance(action, row, column)
                    if discrete and action_squared > 0:
                        continue
                    if not discrete:
                        squared = max(squared, action_squared)
                if squared >= far[k - 1]:
                    continue
                at = k - 1
                while at > 0 and far[at - 1] > squared:
                    neighbours[at], far[at] = neighbours[at - 1], far[at - 1]
                    at -= 1
                neighbours[at], far[at] = column, squared
        for x in range(k):
            out[r, x] = np.sqrt(far[x])


@jit
def _nearest_sum(
    transposed: Any, action: Any, allowed: Any, queried: Any, discrete: bool, index: Any, out: Any
) -> None:
    """The nearest by the sum of the distances of states and actions; one lane. index i64[R, 1], out f32[R, 1]."""
    squares, vector = np.empty(TILE, np.float32), np.empty(transposed.shape[0], np.float32)
    for r in range(len(queried)):
        row, best = queried[r], np.float32(np.inf)
        index[r, 0] = 0
        for d in range(len(vector)):
            vector[d] = transposed[d, row]
        for first in range(0, transposed.shape[1], TILE):
            count = min(TILE, transposed.shape[1] - first)
            _squares(vector, transposed, first, count, squares)
            for c in range(count):
                column = first + c
                if squares[c] > best * best * SLACK or column == row or not allowed[column]:
                    continue
                gap = np.sqrt(_squared_action_distance(action, row, column))
                if discrete:
                    gap = ROOT if gap > 0 else np.float32(0)
                if np.sqrt(squares[c]) + gap < best:
                    best, index[r, 0] = np.sqrt(squares[c]) + gap, column
        out[r, 0] = best


def tally(
    since: bool, state: Tensor, action: Tensor, reward: Tensor, order: Tensor, marks: Tensor, epsilon: Tensor,
    delta_r: Tensor, context: Tensor | None, discrete: bool,
) -> Tensor:  # fmt: skip
    """float32[6, L, N] for the slots marked EXAMINED, over the occupied slots within ε. Of the recent ones: number, sum
    of rewards, number whose reward differs by more than δ_r, number of NEW ones. Of the others: number, sum of rewards.

    With `since`, slots that arrived with or after the oldest liquid neighbour are recent. Otherwise all are, and
    distances of actions are added to those of states. marks uint8[L, N]: sums of OCCUPIED, LIQUID, NEW, EXAMINED.
    """
    every = (state, action, reward, order, marks, epsilon, delta_r, context)
    return _lanes(6, *every, (discrete, not since, context is not None), (since, 0))


def votes(
    state: Tensor, action: Tensor, reward: Tensor, order: Tensor, marks: Tensor, epsilon: Tensor, delta_r: Tensor,
    context: Tensor | None, discrete: bool, least: int,
) -> Tensor:  # fmt: skip
    """float32[4, L, N] for the slots marked EXAMINED, over the occupied slots within ε. Of the latest half of the newer
    ones, or of the latest `least` if that is more: number, number whose reward differs by more than δ_r. Of the older
    ones: number, number that differ. Slots must be sorted by arrival, the latest first.
    """
    every = (state, action, reward, order, marks, epsilon, delta_r, context)
    return _lanes(4, *every, (discrete, False, context is not None), (False, least))


def _lanes(
    numbers: int, state: Tensor, action: Tensor, reward: Tensor, order: Tensor, marks: Tensor, epsilon: Tensor,
    delta_r: Tensor, context: Tensor | None, how: tuple[bool, bool, bool], rule: tuple[bool, int],
) -> Tensor:  # fmt: skip
    """float32[numbers, L, N], lane by lane."""
    out = torch.zeros(numbers, *reward.shape, dtype=torch.float32, device="cpu")
    for lane, scales in enumerate(zip(epsilon[:, 0].numpy(), delta_r[:, 0].numpy(), strict=True)):
        labels = _labels(lane, action, context, marks)
        rewards, births = (x[lane].contiguous().numpy() for x in (reward, order))
        _count_lane(_transposed(state[lane]), labels, rewards, births, scales, how, rule, out[:, lane].numpy())
    return out


def nearest(
    query: Tensor, state: Tensor, allowed: Tensor, queried: Tensor, k: int,
    action: Tensor | None = None, context: Tensor | None = None, discrete: bool = False, summed: bool = False,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The k allowed (bool[L, N]) states [L, N, D] nearest to the queried rows int64[R] of query [L, N, D]: slots int64
    and distances float32 [L, R, k], infinite for none. The distance includes actions, if given; contexts must match.
    With `summed` (k = 1 and query = state only) the distances of states and actions are added.
    """
    lanes, shape = len(state), (len(state), len(queried), k)
    index = torch.empty(shape, dtype=torch.int64, device="cpu")
    distance = torch.empty(shape, dtype=torch.float32, device="cpu")
    how = (discrete, action is not None, context is not None)
    for lane in range(lanes):
        actions = state if action is None else action
        labels = _labels(lane, actions, context, allowed)[:2]
        found = (index[lane].numpy(), distance[lane].numpy())
        rows, columns = query[lane].contiguous().numpy(), _transposed(state[lane])
        if summed:
            _nearest_sum(columns, labels[0], allowed[lane].numpy(), queried.numpy(), discrete, *found)
            continue
        _nearest(rows, columns, allowed[lane].numpy(), queried.numpy(), labels, how, *found)
    return index, distance


def _labels(lane: int, action: Tensor, context: Tensor | None, marks: Tensor) -> tuple[Any, Any, Any]:
    """Actions, contexts (empty if None) and marks of a lane, as arrays."""
    ids = torch.zeros(0, dtype=torch.int64, device="cpu") if context is None else context[lane].to(torch.int64)
    return action[lane].contiguous().numpy(), ids.contiguous().numpy(), marks[lane].numpy()


def _transposed(vectors: Tensor) -> Any:
    """[D, N], so that a coordinate of adjacent slots is contiguous."""
    return vectors.t().contiguous().numpy()
