"""Frames by number, counted, and coded relative to others."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crystalrl.memory.storage.frames import (
    BASE,
    BLANK,
    LENGTH,
    FramePool,
    frame_bytes,
    frame_steps,
    needed,
    recent_frames,
    references,
)
from crystalrl.memory.storage.heap import BLOCK
from crystalrl.memory.storage.spec import StorageSpec
from tests.conftest import computing_with

SIZE = 300
STEPS = (1, 20)


def frame(value: int) -> np.ndarray:
    """One of ten scenes, which have nothing in common, with small changes; the frame of 0 is blank."""
    shown = np.random.default_rng(value // 10).integers(1, 256, SIZE, dtype=np.uint8)
    shown[: value % 10] = value
    return shown if value else np.zeros(SIZE, np.uint8)


def numbers(*values: int) -> np.ndarray:
    return np.array(values, np.int32)


def new_pool(frames: int = 20) -> FramePool:
    pool = FramePool(SIZE, STEPS)
    pool.reserve(frames)
    return pool


def test_a_frame_like_its_base_is_stored_as_what_differs() -> None:
    pool = new_pool()
    first = pool.add(frame(10))
    other = pool.add(frame(15), first)
    assert pool.table[other, BASE] == first
    assert pool.table[other, LENGTH] < 10
    assert pool.base(other) == pool.base(first) == first
    assert pool.count[[first, other]].tolist() == [2, 1]
    assert np.array_equal(pool.take(numbers(other, first, BLANK)), [frame(15), frame(10), frame(0)])


def test_a_frame_that_has_little_in_common_with_its_base_is_stored_without_it() -> None:
    pool = new_pool()
    first = pool.add(frame(10))
    other = pool.add(frame(25), first)
    assert (pool.table[other, BASE], pool.table[other, LENGTH]) == (BLANK, SIZE)
    assert pool.count[first] == 1


def test_a_frame_that_is_its_base_is_not_stored_again() -> None:
    pool = new_pool()
    first = pool.add(frame(10))
    assert pool.add(frame(10), first) == first
    assert len(pool) == 1
    assert pool.count[first] == 2


def test_a_base_stays_until_nothing_is_relative_to_it() -> None:
    pool = new_pool()
    first = pool.add(frame(10))
    other = pool.add(frame(15), first)
    pool.release([first, BLANK])
    assert len(pool) == 2
    assert np.array_equal(pool.take(numbers(other)), [frame(15)])
    pool.release([other])
    assert len(pool) == 0
    assert pool.heap.room() == len(pool.heap.blocks)
    assert not pool.table.any()


def test_the_smallest_free_number_is_used_first() -> None:
    pool = new_pool()
    held = [pool.add(frame(10 * v)) for v in range(1, 6)]
    pool.release([held[3], held[1]])
    assert pool.add(frame(70)) == held[1]
    assert pool.add(frame(71)) == held[3]


def test_a_pool_grows_and_keeps_what_it_holds() -> None:
    pool, held = FramePool(SIZE, STEPS), []
    for value in range(10, 110):
        before, missing = pool.nbytes, pool.missing(1)
        pool.reserve(1)
        assert pool.nbytes - before == missing
        assert pool.missing(1) == 0
        held.append(pool.add(frame(value)))
    chosen = np.random.default_rng(0).permutation(100)
    wanted = np.stack([frame(10 + value) for value in chosen]).reshape(10, 10, SIZE)
    assert np.array_equal(pool.take(numbers(*held)[chosen].reshape(10, 10)), wanted)
    assert pool.nbytes == len(pool.heap.blocks) * (BLOCK + 4) + len(pool.table) * 16


@settings(max_examples=60)
@given(st.lists(st.tuples(st.integers(1, 39), st.booleans()), max_size=60))
def test_a_pool_is_a_dictionary_of_counted_frames(steps: list[tuple[int, bool]]) -> None:
    pool, held = FramePool(SIZE, STEPS), list[tuple[int, int]]()
    for value, drop in steps:
        if drop and held:
            pool.release([held.pop(value % len(held))[0]])
        else:
            pool.reserve(1)
            base = pool.base(held[-1][0]) if held and value % 3 else BLANK
            held.append((pool.add(frame(value), base), value))
    named = numbers(*(number for number, _ in held))
    assert np.array_equal(pool.take(named[:, None])[:, 0], np.array([frame(v) for _, v in held]).reshape(-1, SIZE))
    count = references(named, pool.table[: pool.used, BASE], pool.used)
    assert np.array_equal(pool.count[: pool.used], count)
    assert np.array_equal(count > 0, pool.table[: pool.used, LENGTH] > 0)
    blocks = -(-pool.table[:, LENGTH] // BLOCK)
    assert pool.heap.room() == len(pool.heap.blocks) - blocks.sum()


def filled_like(pool: FramePool, named: np.ndarray) -> FramePool:
    other = FramePool(SIZE, STEPS)
    other.fill(*pool.state(), named)
    return other


def test_a_filled_pool_goes_on_like_the_one_it_is_filled_from() -> None:
    pool = new_pool()
    held = [pool.add(frame(v), int(v > 11)) for v in range(11, 17)]
    pool.release([held[4], held[1]])
    rest = numbers(*(h for i, h in enumerate(held) if i not in (1, 4)))
    other = filled_like(pool, rest)
    for one in (pool, other):
        one.reserve(3)
    assert [pool.add(frame(v)) for v in (50, 51, 52)] == [other.add(frame(v)) for v in (50, 51, 52)]
    assert all(map(np.array_equal, pool.state(), other.state()))
    assert np.array_equal(pool.count[: pool.used], other.count[: other.used])
    assert len(pool) == len(other) == 7


def test_frames_that_nothing_names_are_not_kept() -> None:
    pool = new_pool()
    held = [pool.add(frame(v), int(v > 11)) for v in (11, 12, 20, 31)]
    other = filled_like(pool, numbers(held[1], held[3]))
    assert other.count[: other.used].tolist() == [0, 1, 1, 0, 1]
    assert other.table[held[2]].tolist() == [0, 0, 0, 0]
    assert other.heap.free == 3
    assert np.array_equal(other.take(numbers(*held[:2], held[3])), [frame(11), frame(12), frame(31)])


def test_a_copy_is_brought_up_to_date_frame_by_frame() -> None:
    pool, copy = new_pool(), FramePool(SIZE, STEPS)
    held = [pool.add(frame(v), int(v > 11)) for v in range(11, 16)]
    copy.copy_from(pool, numbers(BLANK, *held))
    assert np.array_equal(copy.take(numbers(*held)), pool.take(numbers(*held)))
    pool.release(held[1:3])
    new = [pool.add(frame(v)) for v in (31, 42, 55)]
    copy.copy_from(pool, numbers(*new))
    now = numbers(held[0], *held[3:], *new)
    assert np.array_equal(copy.take(now), pool.take(now))
    assert copy.heap.used - copy.heap.free == pool.heap.used - pool.heap.free


def test_a_cleared_pool_is_empty_and_as_large_as_before() -> None:
    pool = new_pool()
    held = pool.add(frame(3))
    before = pool.nbytes
    pool.clear()
    assert len(pool) == 0
    assert pool.nbytes == before
    assert pool.add(frame(4)) == held


@pytest.mark.parametrize("backend", ["numpy", "torch"])
def test_every_backend_stores_the_same_bytes(backend: str) -> None:
    one = new_pool(60)
    with computing_with(backend):
        other = new_pool(60)
    for pool in (one, other):
        for value in range(10, 60):
            pool.add(frame(value), int(value > 10))
    assert one.table.tolist() == other.table.tolist()
    assert all(map(np.array_equal, one.state(), other.state()))


@pytest.mark.parametrize(("lanes", "envs", "n_step"), [(None, 1, 1), (3, 2, 5)])
def test_sizes_follow_from_the_shapes(lanes: int | None, envs: int, n_step: int) -> None:
    spec = StorageSpec(10_000, obs=(12, 84, 80), action=2, stack=4, lanes=lanes, envs=envs, n_step=n_step)
    assert frame_bytes(spec) == 3 * 84 * 80 * 4  # float32
    assert frame_steps(spec) == (4, 320)
    assert frame_steps(StorageSpec(10, obs=(4, 2), action=2, stack=2)) == (4, 4)
    assert needed(spec, 10) == (lanes or 1) * 80
    assert recent_frames(spec) == 4 + 2 * n_step
