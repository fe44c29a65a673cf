"""Numba twins of `crystalrl.backends.triton_pairs`: what looks at all pairs of experiences, on CPU.

torch makes some forty passes over matrices [L, R, N]; here a row's distances to a tile of columns stay in the first
cache, and only what is near is looked at further. Sums of squares run over the dimensions one after another, so a
distance has the same bits wherever it is computed here.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import torch
from torch import Tensor

jit = numba.njit(cache=True, nogil=True, error_model="numpy")
TILE = 512
"""Columns that are looked at together."""
SLACK = np.float32(1 + 1e-5)
"""Squares this much above ε² are looked at exactly."""
OCCUPIED, LIQUID, NEW, ASKED = 1, 2, 4, 8
"""Marks of a slot."""
ROOT = np.float32(2**0.5)


@jit
def _squares(vector: Any, turned: Any, first: int, count: int, out: Any) -> None:
    """Squared distances of a vector [D] to `count` columns of turned [D, N], from the first on."""
    out[:count] = 0
    for d in range(len(vector)):
        mine, theirs = vector[d], turned[d, first : first + count]
        for c in range(count):
            gap = theirs[c] - mine
            out[c] += gap * gap


@jit
def _acted(action: Any, row: int, column: int) -> Any:
    """Squared distance of two actions of action [N, A]."""
    total = np.float32(0)
    for d in range(action.shape[1]):
        gap = action[row, d] - action[column, d]
        total += gap * gap
    return total


@jit
def _near(row: int, turned: Any, action: Any, context: Any, marks: Any, epsilon: Any, how: Any, room: Any) -> int:
    """Names of the occupied columns within ε of a row, in order, into room[0]; how many.

    how = (discrete, summed, contexts): whether actions are codes, whether their distance is added to the state's or
    must be within ε, too, and whether contexts are compared. room = (names, squares of a tile, a vector).
    """
    discrete, summed, contexts = how
    names, squares, vector = room
    for d in range(len(vector)):
        vector[d] = turned[d, row]
    held, limit = 0, epsilon * epsilon * SLACK
    for first in range(0, turned.shape[1], TILE):
        count = min(TILE, turned.shape[1] - first)
        _squares(vector, turned, first, count, squares)
        for c in range(count):
            if squares[c] > limit:
                continue
            column, apart = first + c, np.sqrt(squares[c])
            if column == row or not marks[column] & OCCUPIED:
                continue
            if contexts and context[column] != context[row]:
                continue
            acted = np.sqrt(_acted(action, row, column))
            if summed:
                apart += (ROOT if acted > 0 else np.float32(0)) if discrete else acted
            elif acted > (np.float32(0) if discrete else epsilon):
                continue
            if apart <= epsilon:
                names[held] = column
                held += 1
    return held


@jit
def _summed(row: int, names: Any, since: bool, marks: Any, reward: Any, order: Any, delta_r: Any, out: Any) -> None:
    """One row of `tally`."""
    oldest = np.float32(np.inf if since else -1)
    if since:
        for j in names:
            if marks[j] & LIQUID:
                oldest = min(oldest, order[j])
    fresh, against, new, elders, fresh_sum, elder_sum = 0, 0, 0, 0, 0.0, 0.0
    for j in names:
        if order[j] >= oldest:
            fresh += 1
            fresh_sum += reward[j]
            against += abs(reward[row] - reward[j]) > delta_r
            new += (marks[j] & NEW) > 0
        else:
            elders += 1
            elder_sum += reward[j]
    out[0, row], out[1, row], out[2, row], out[3, row] = fresh, fresh_sum, against, new
    out[4, row], out[5, row] = elders, elder_sum


@jit
def _voted(row: int, names: Any, least: int, reward: Any, order: Any, delta_r: Any, out: Any) -> None:
    """One row of `votes`."""
    newer = 0
    for j in names:
        newer += order[j] > order[row]
    limit, heard, against, at_odds = max((newer + 1) // 2, least), 0, 0, 0
    for j in names:
        differs = abs(reward[row] - reward[j]) > delta_r
        if order[j] <= order[row]:
            at_odds += differs
        elif heard < limit:
            heard += 1
            against += differs
    out[0, row], out[1, row], out[2, row], out[3, row] = heard, against, len(names) - newer, at_odds


@jit
def _counted(turned: Any, labels: Any, reward: Any, order: Any, scales: Any, how: Any, rule: Any, out: Any) -> None:
    """One lane of `tally`, rule = (since, 0), or of `votes`, rule = (False, least)."""
    action, context, marks = labels
    epsilon, delta_r = scales
    since, least = rule
    names, squares = np.empty(turned.shape[1], np.int64), np.empty(TILE, np.float32)
    room = (names, squares, np.empty(turned.shape[0], np.float32))
    for row in range(turned.shape[1]):
        if not marks[row] & ASKED:
            continue
        near = names[: _near(row, turned, action, context, marks, epsilon, how, room)]
        if least:
            _voted(row, near, least, reward, order, delta_r, out)
        else:
            _summed(row, near, since, marks, reward, order, delta_r, out)


@jit
def _nearest(query: Any, turned: Any, allowed: Any, asked: Any, labels: Any, how: Any, index: Any, out: Any) -> None:
    """See `nearest`; one lane."""
    action, context = labels
    discrete, acts, contexts = how
    k, slots, squares = index.shape[1], turned.shape[1], np.empty(TILE, np.float32)
    vector, far = np.empty(turned.shape[0], np.float32), np.empty(k, np.float32)
    for r in range(len(asked)):
        row, names = asked[r], index[r]
        vector[:] = query[row]
        far[:], names[:] = np.inf, 0
        for first in range(0, slots, TILE):
            count = min(TILE, slots - first)
            _squares(vector, turned, first, count, squares)
            for c in range(count):
                apart, column = squares[c], first + c
                if apart >= far[k - 1] or column == row or not allowed[column]:
                    continue
                if contexts and context[column] != context[row]:
                    continue
                if acts:
                    acted = _acted(action, row, column)
                    if discrete and acted > 0:
                        continue
                    if not discrete:
                        apart = max(apart, acted)
                if apart >= far[k - 1]:
                    continue
                at = k - 1
                while at > 0 and far[at - 1] > apart:
                    names[at], far[at] = names[at - 1], far[at - 1]
                    at -= 1
                names[at], far[at] = column, apart
        for x in range(k):
            out[r, x] = np.sqrt(far[x])


def tally(
    since: bool, state: Tensor, action: Tensor, reward: Tensor, order: Tensor, marks: Tensor, epsilon: Tensor,
    delta_r: Tensor, context: Tensor | None, discrete: bool,
) -> Tensor:  # fmt: skip
    """float32[6, L, N], of each slot that is asked for: of the occupied within ε the fresh (as new as the oldest liquid
    one, or all): how many, the sum of their rewards, how many differ by more than δ_r, how many are new; of the others
    how many and the sum of their rewards.

    marks uint8[L, N]: sums of OCCUPIED, LIQUID, NEW, ASKED. Without `since` distances of actions are added to those of
    states.
    """
    every = (state, action, reward, order, marks, epsilon, delta_r, context)
    return _lanes(6, *every, (discrete, not since, context is not None), (since, 0))


def votes(
    state: Tensor, action: Tensor, reward: Tensor, order: Tensor, marks: Tensor, epsilon: Tensor, delta_r: Tensor,
    context: Tensor | None, discrete: bool, least: int,
) -> Tensor:  # fmt: skip
    """float32[4, L, N], of each slot that is asked for: of the occupied within ε that are newer, the first half or
    `least`: how many, and how many differ by more than δ_r; of the elders how many, and how many differ. Slots must be
    in the order of arrival, the latest first.
    """
    every = (state, action, reward, order, marks, epsilon, delta_r, context)
    return _lanes(4, *every, (discrete, False, context is not None), (False, least))


def _lanes(
    numbers: int, state: Tensor, action: Tensor, reward: Tensor, order: Tensor, marks: Tensor, epsilon: Tensor,
    delta_r: Tensor, context: Tensor | None, how: tuple[bool, bool, bool], rule: tuple[bool, int],
) -> Tensor:  # fmt: skip
    """float32[numbers, L, N], lane by lane."""
    out = torch.zeros(numbers, *reward.shape)
    for lane, scales in enumerate(zip(epsilon[:, 0].numpy(), delta_r[:, 0].numpy(), strict=True)):
        labels = _labels(lane, action, context, marks)
        rewards, births = (x[lane].contiguous().numpy() for x in (reward, order))
        _counted(_turned(state[lane]), labels, rewards, births, scales, how, rule, out[:, lane].numpy())
    return out


def nearest(
    query: Tensor, state: Tensor, allowed: Tensor, asked: Tensor, k: int,
    action: Tensor | None = None, context: Tensor | None = None, discrete: bool = False,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The k allowed (bool[L, N]) states [L, N, D] nearest to the asked rows int64[R] of query [L, N, D]: slots int64
    and distances float32 [L, R, k], infinite where there is none. With actions or contexts only what is alike counts.
    """
    lanes, shape = len(state), (len(state), len(asked), k)
    index, apart = torch.empty(shape, dtype=torch.int64), torch.empty(shape)
    how = (discrete, action is not None, context is not None)
    for lane in range(lanes):
        acted = state if action is None else action
        labels = _labels(lane, acted, context, allowed)[:2]
        found = (index[lane].numpy(), apart[lane].numpy())
        rows, columns = query[lane].contiguous().numpy(), _turned(state[lane])
        _nearest(rows, columns, allowed[lane].numpy(), asked.numpy(), labels, how, *found)
    return index, apart


def _labels(lane: int, action: Tensor, context: Tensor | None, marks: Tensor) -> tuple[Any, Any, Any]:
    """What a lane's slots bear, as arrays; the marks in place of contexts that are not there, which are not read."""
    ids = torch.zeros(0, dtype=torch.int64) if context is None else context[lane].to(torch.int64)
    return action[lane].contiguous().numpy(), ids.contiguous().numpy(), marks[lane].numpy()


def _turned(vectors: Tensor) -> Any:
    """[D, N], so that neighbouring slots lie side by side."""
    return vectors.t().contiguous().numpy()
