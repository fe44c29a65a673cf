"""Compiled writes: what a plain loop over the new experiences would write."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("numba")

from crystalrl.backends import numba_writes as loops
from crystalrl.backends.protocols import UNLABELLED
from tests.backends.loops import arrays_of, columns_of, new_slots, rule_of

SLOTS = 200


@pytest.mark.parametrize("lanes", [1, 3])
def test_new_experiences_are_registered_one_after_another(lanes: int) -> None:
    rng = np.random.default_rng(0)
    tree, rule = arrays_of("numba", 1, lanes, SLOTS, 3), rule_of(2, lanes, SLOTS, 3)
    columns = columns_of(rng, tree, lanes, SLOTS, True)
    slot, c = new_slots(rng, lanes, SLOTS, 30), rng.random((lanes, 30)).astype(np.float32)
    before, generation, number = tree[1].copy(), tree[3].copy(), columns.number.copy()
    counts = columns.filled.copy()
    loops.commit(tree, rule, columns, slot, c, 2)
    for lane in range(lanes):
        for b, i in enumerate(slot[lane]):
            if i < 0:
                continue
            stratum = int(c[lane, b] > 0.3) + int(c[lane, b] > 0.7)
            weight = (rule[5][lane], rule[5][lane] * np.sqrt(c[lane, b]), c[lane, b])[stratum]
            assert (tree[0][lane, i], tree[1][lane, i], tree[3][lane, i]) == (weight, stratum, generation[lane, i] + 1)
            assert columns.floats[:, lane, i].tolist() == [c[lane, b], 0.0, 0.0]
            assert (columns.birth[lane, i], columns.env[lane, i]) == (number[lane], b // 2)
            assert columns.updated[lane, i] == np.array(columns.clock[lane]).astype(np.int32)
            assert columns.bytes[:, lane, i].tolist() == [0, 0]
            counts[lane, stratum] += 1
            if before[lane, i] != UNLABELLED:
                counts[lane, before[lane, i]] -= 1
            number[lane] += 1
    assert np.array_equal(columns.filled, counts)
    assert np.array_equal(columns.number, number)
    assert np.array_equal(columns.filled, [[(row == s).sum() for s in range(3)] for row in tree[1]])
