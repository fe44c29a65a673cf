"""The loops over products find what plain Python finds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

pytest.importorskip("numba")

from crystalrl.backends import numba_products as loops

HOW = (np.float32(1.01 * 2.0**-7), np.float32(2.0**-18))
SLOTS, K, SIZE = 150, 5, 7


def example(seed: int) -> Any:
    """Points and states with the same slots, what the loops take of them, and products of vectors in bfloat16."""
    rng = np.random.default_rng(seed)
    points, states = (4 * rng.normal(size=(2, SLOTS, SIZE))).astype(np.float32)
    sides = []
    for exact in (points, states):
        rounded = torch.from_numpy(exact).bfloat16().float().numpy()
        sides.append((exact, (rounded**2).sum(1), np.sqrt(((exact - rounded) ** 2).sum(1)), np.arange(SLOTS)))
    rough = torch.from_numpy(points).bfloat16() @ torch.from_numpy(states).bfloat16().T
    return points, states, sides, rough.float().numpy()


def squares(points: Any, states: Any) -> Any:
    return ((points[:, None].astype(np.float64) - states) ** 2).sum(-1)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("few", "near"), [(K, 0.0), (2, 30.0), (1, 1e9)])
def test_every_row_keeps_its_nearest_columns_however_rough_the_products(seed: int, few: int, near: float) -> None:
    points, states, (rows, columns), tile = example(seed)
    names, far = np.full((SLOTS, K), -1, np.int32), np.full((SLOTS, K), np.inf, np.float32)
    held, first = np.zeros(SLOTS, np.int64), np.full(SLOTS, np.inf, np.float32)
    for part in (slice(0, 70), slice(70, SLOTS)):  # in two tiles
        some = tuple(each[part] for each in columns)
        loops.keep_nearest(tile[:, part].copy(), rows, some, HOW, (few, np.float32(near), first), (names, far, held))
    apart = squares(points, states)
    np.fill_diagonal(apart, np.inf)
    order = apart.argsort(1)[:, :K]
    for row in range(SLOTS):
        wanted = [j for x, j in enumerate(order[row].tolist()) if x < few or apart[row, j] < near]
        assert names[row, : len(wanted)].tolist() == wanted


@pytest.mark.parametrize("seed", range(4))
def test_a_list_accepts_offered_columns_that_are_nearer_than_its_last(seed: int) -> None:
    points, states, (rows, columns), tile = example(seed)
    apart = squares(points, states)
    old, new = np.arange(100), np.arange(100, SLOTS)
    lists = np.full((SLOTS, K), -1, np.int32)
    for i in old.tolist():
        count = 1 + i % K
        lists[i, :count] = sorted((j for j in old.tolist() if j != i), key=lambda j, i=i: apart[i, j])[:count]
    before, last = lists.copy(), np.full(SLOTS, np.inf, np.float32)
    for i in old.tolist():
        last[i] = apart[i, lists[i][lists[i] >= 0][-1]]
    left, right = tuple(each[old] for each in rows), tuple(each[new] for each in columns)
    space = rows_of_many(points, states)
    loops.offer(tile[:100, 100:].copy(), left, right, HOW, lists, space, last)
    for i in old.tolist():
        held = [j for j in before[i].tolist() if j >= 0]
        nearer = [j for j in new.tolist() if apart[i, j] < apart[i, held[-1]]]
        wanted = sorted(held + nearer, key=lambda j, i=i: apart[i, j])[:K]
        assert [j for j in lists[i].tolist() if j >= 0] == wanted


def rows_of_many(points: Any, states: Any) -> Any:
    """Points and states as parts of wider rows."""
    rows = np.concatenate([points, states], 1)
    return (rows, 0), (rows, SIZE), np.ones(SIZE, np.float32)
