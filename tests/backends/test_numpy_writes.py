"""Writes in NumPy: the same as the compiled loops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("numba")

from crystalrl.backends import numba_writes, numpy_writes
from crystalrl.backends.protocols import UNLABELLED
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


@pytest.mark.parametrize("loops", BOTH.values(), ids=list(BOTH))
def test_one_experience_is_registered_as_by_a_commit_of_one(loops: Any) -> None:
    found = []
    for alone in (False, True):
        rng = np.random.default_rng(4)
        tree, rule = arrays_of("numba", 1, 1, SLOTS, 3), rule_of(2, 1, SLOTS, 3)
        columns = columns_of(rng, tree, 1, SLOTS, True)
        free, liquid = ((tree[1][0, :SLOTS] == label).nonzero()[0][0] for label in (UNLABELLED, 0))
        for slot in (free, liquid, free):
            if alone:
                loops.commit_one(tree, columns, slot, float(rule[5][0]))
            else:
                loops.commit(tree, rule, columns, np.array([[slot]]), np.zeros((1, 1), np.float32), 1)
        found.append([*columns, *tree])
    assert all(np.array_equal(one, other) for one, other in zip(*found, strict=True))


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
