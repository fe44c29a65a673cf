"""The compiled codes of frames are those of plain NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("numba")

from crystalrl.backends import numba_frames, numpy_frames
from crystalrl.memory.storage.frames import FramePool
from tests.backends.frames import Drawn, code_of, frames_and_steps


@settings(max_examples=200)
@given(frames_and_steps(), st.floats(0, 1))
def test_codes_are_the_same(drawn: Drawn, part: float) -> None:
    frame, base, steps = drawn
    limit, (one, other) = int(part * len(frame)), np.zeros((2, len(frame)), np.uint8)
    length = numba_frames.encode(frame, base, steps, one, limit)
    assert length == numpy_frames.encode(frame, base, steps, other, limit)
    assert length == limit or np.array_equal(one[:length], other[:length])


@settings(max_examples=200)
@given(frames_and_steps())
def test_frames_come_back(drawn: Drawn) -> None:
    frame, base, steps = drawn
    found, out = code_of(numba_frames, frame, base, steps), np.full_like(frame, 77)
    numba_frames.decode(frame if found is None else found, base, steps, out)
    assert np.array_equal(out, frame)


@settings(max_examples=300)
@given(st.lists(st.integers(0, 255), max_size=12), st.integers(1, 40), st.integers(1, 3), st.integers(1, 9))
def test_the_same_codes_are_sound(code: list[int], size: int, near: int, row: int) -> None:
    given_code = np.array(code, np.uint8)
    assert numba_frames.sound(given_code, size, (near, row)) == numpy_frames.sound(given_code, size, (near, row))


def test_frames_of_a_pool_are_taken_in_any_order_and_more_than_once() -> None:
    pool, rng = FramePool(600, (1, 20)), np.random.default_rng(0)
    frames, numbers, base = np.zeros((60, 600), np.uint8), np.zeros(60, np.int32), 0
    for i in range(1, 60):
        frames[i] = rng.integers(0, 256, 600) if i % 7 == 0 else frames[i - 1]
        frames[i, rng.integers(600, size=9)] = i
        pool.reserve(1)
        numbers[i] = pool.add(frames[i], base)
        base = pool.base(int(numbers[i]))
    chosen = rng.integers(0, 60, (50, 8))
    for loops in (numba_frames, numpy_frames):
        out: Any = np.empty((50, 8, 600), np.uint8)
        heap = (pool.heap.blocks, pool.heap.following)
        loops.take(numbers[chosen], heap, pool.table, pool.steps, out)
        assert np.array_equal(out, frames[chosen])
