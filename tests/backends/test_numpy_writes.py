"""Writes in NumPy: the same as the compiled loops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("numba")

from crystalrl.backends import numba_writes, numpy_writes
from crystalrl.backends.cpu_writes import RING
from tests.backends.loops import arrays_of, columns_of, new_slots, rule_of

BOTH = {"numba": numba_writes, "numpy": numpy_writes}
SLOTS = 200


@pytest.mark.parametrize(("lanes", "size", "envs"), [(1, 8, False), (1, 1, True), (3, 40, True)])
@pytest.mark.parametrize("given", [False, True])
def test_new_experiences_are_registered_alike(lanes: int, size: int, envs: bool, given: bool) -> None:
    found = []
    for name, loops in BOTH.items():
        rng = np.random.default_rng(3)
        tree, rule = arrays_of(name, 1, lanes, SLOTS, 3), rule_of(2, lanes, SLOTS, 3)
        columns = columns_of(rng, tree, lanes, SLOTS, envs)
        slot = new_slots(rng, lanes, SLOTS, size)
        c = rng.random((lanes, size if given else 1)).astype(np.float32) * given
        loops.commit(tree, rule, columns, slot, c, 2)
        found.append([*columns, tree[0], tree[1], tree[2][..., : SLOTS // 16], tree[3]])
    assert all(np.array_equal(one, other) for one, other in zip(*found, strict=True))


@pytest.mark.parametrize(("lanes", "size"), [(1, 1), (1, 8), (3, 5)])
@pytest.mark.parametrize("kind", ["ring", "plain", "columns"])
def test_new_experiences_are_admitted_at_once_as_by_an_allocation_and_a_commit(
    lanes: int, size: int, kind: str
) -> None:
    found = []
    for name, alone in (("numba", True), ("numba", False), ("numpy", True)):
        rng, loops = np.random.default_rng(4), BOTH[name]
        strata = 3 if kind == "columns" else 1
        tree, rule = arrays_of(name, 1, lanes, SLOTS, strata), rule_of(2, lanes, SLOTS, strata)
        columns = columns_of(rng, arrays_of(name, 1, lanes, SLOTS, 3), lanes, SLOTS, True)
        queue = np.stack([rng.permutation(SLOTS) for _ in range(lanes)]).astype(np.int32)
        order = np.arange(190, 190 + lanes), SLOTS, queue if kind == "columns" else RING
        slot, time = np.empty((lanes, size), np.int64), np.arange(lanes)
        if alone:
            loop = {"ring": loops.admit_ring, "plain": loops.admit_plain, "columns": loops.admit}[kind]
            held = loops.hold(order, tree, rule, columns)
            loops.bound(loop, held, slot, time)(held, slot, time)
        else:
            loops.allocate(np.ones(slot.shape, bool), *order, slot)
            time += size
            if kind == "plain":
                loops.commit_plain(tree, slot, rule[5])
            elif kind == "columns":
                loops.commit(tree, rule, columns, slot, np.zeros((lanes, 1), np.float32), 1)
        found.append([slot, time, order[0], *columns, tree[0], tree[1], tree[2][..., : SLOTS // 16], tree[3]])
    for other in found[1:]:
        assert all(np.array_equal(one, two) for one, two in zip(found[0], other, strict=True))


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("loops", BOTH.values(), ids=list(BOTH))
def test_a_value_that_is_not_finite_is_found_anywhere(loops: Any, dtype: Any) -> None:
    rows = np.zeros((2, 3, 9), dtype)
    part = rows[..., 1:8]
    part[0, 0, 0], part[1, 2, 6], rows[..., 8] = np.finfo(dtype).max, np.finfo(dtype).min, np.nan
    assert loops.finite(part)
    for place in ((0, 0, 0), (0, 2, 6), (1, 1, 3)):
        for bad in (np.nan, np.inf, -np.inf):
            changed = part.copy()
            changed[place] = bad
            assert not loops.finite(changed)


@pytest.mark.parametrize("lanes", [1, 3])
def test_weights_of_new_experiences_without_columns_are_the_same(lanes: int) -> None:
    found = []
    for name, loops in BOTH.items():
        rng, tree = np.random.default_rng(5), arrays_of(name, 1, lanes, SLOTS, 1)
        loops.commit_plain(tree, new_slots(rng, lanes, SLOTS, 20), np.array([2.0, 3.0, 4.0], np.float32)[:lanes])
        found.append([tree[0], tree[2][..., : SLOTS // 16], tree[3]])
    assert all(np.array_equal(one, other) for one, other in zip(*found, strict=True))
    assert (found[0][0] == 2.0).sum() > 10


@pytest.mark.parametrize("loops", BOTH.values(), ids=list(BOTH))
def test_what_an_update_asks_of_its_slots(loops: Any) -> None:
    slot, magnitude = np.array([[3, 0], [9, 4]]), np.empty((2, 2), np.float32)
    assert tuple(loops.examine(slot, np.array([[-1.0, 2.0], [0.0, -4.0]]), magnitude)) == (0, 9, True)
    assert magnitude.tolist() == [[1.0, 2.0], [0.0, 4.0]]
    for bad in (np.nan, np.inf, -np.inf):
        assert not loops.examine(slot, np.array([[1.0, bad], [0.0, 0.0]]), magnitude)[2]
