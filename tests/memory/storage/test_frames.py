"""Frames by number, counted."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crystalrl.memory.storage.frames import BLANK, FramePool, first_frames, frame_bytes, needed, pool_bytes
from crystalrl.memory.storage.spec import StorageSpec

SIZE = 3


def frame(value: int) -> np.ndarray:
    return np.full(SIZE, value, np.uint8)


def numbers(*values: int) -> np.ndarray:
    return np.array(values, np.int32)


def test_a_frame_is_stored_again_only_if_it_is_not_among_the_recent_ones() -> None:
    pool = FramePool(SIZE, 10)
    first = pool.refer(frame(7), [])
    assert pool.refer(frame(7), [first]) == first
    assert pool.refer(frame(7), []) != first
    assert pool.refer(frame(8), [first]) not in (first, BLANK)
    assert len(pool) == 3
    assert pool.count[first] == 2


def test_a_blank_frame_is_neither_stored_nor_counted() -> None:
    pool = FramePool(SIZE, 10)
    assert pool.refer(frame(0), []) == BLANK
    pool.release([BLANK, BLANK])
    assert len(pool) == 0
    assert pool.take(numbers(BLANK)).tolist() == [[0] * SIZE]


def test_a_recent_frame_that_was_freed_is_stored_again() -> None:
    pool = FramePool(SIZE, 10)
    old = pool.refer(frame(7), [])
    pool.release([old])
    assert pool.refer(frame(9), []) == old
    new = pool.refer(frame(7), [old])
    assert new != old
    assert pool.take(numbers(old, new)).tolist() == [[9] * SIZE, [7] * SIZE]


def test_the_smallest_free_number_is_used_first() -> None:
    pool = FramePool(SIZE, 10)
    held = [pool.refer(frame(v), []) for v in range(1, 6)]
    pool.release([held[3], held[1]])
    assert pool.refer(frame(100), []) == held[1]
    assert pool.refer(frame(101), []) == held[3]


def test_a_pool_grows_in_parts_and_keeps_what_it_holds() -> None:
    pool = FramePool(SIZE, 32)
    assert pool.missing(31) == 0
    assert pool.missing(32) == pool.step * SIZE
    pool.reserve(100)
    assert pool.room() >= 100
    assert pool.missing(100) == 0
    held = [pool.refer(frame(v), []) for v in range(1, 101)]
    assert len(pool.parts) > 2
    shuffled = np.random.default_rng(0).permutation(100)
    assert pool.take(numbers(*held)[shuffled].reshape(10, 10))[..., 0].flatten().tolist() == (shuffled + 1).tolist()
    assert pool.nbytes == (sum(len(part) for part in pool.parts)) * (SIZE + 4)


@settings(max_examples=60)
@given(st.lists(st.tuples(st.integers(0, 9), st.booleans()), max_size=60), st.integers(1, 80))
def test_a_pool_is_a_dictionary_of_counted_frames(steps: list[tuple[int, bool]], first: int) -> None:
    pool, held = FramePool(SIZE, first), list[tuple[int, int]]()
    for value, drop in steps:
        if drop and held:
            number, _ = held.pop(value % len(held))
            pool.release([number])
        else:
            pool.reserve(1)
            held.append((pool.refer(frame(value), [number for number, _ in held]), value))
    named = numbers(*(number for number, _ in held))
    assert pool.take(named)[:, 0].tolist() == [value for _, value in held]
    assert np.array_equal(pool.count[: pool.used], FramePool.references(named, pool.used))
    assert len(pool) == len({value for _, value in held if value})


def test_a_filled_pool_goes_on_like_the_one_it_is_filled_from() -> None:
    pool, other = FramePool(SIZE, 8), FramePool(SIZE, 4)
    held = [pool.refer(frame(v), []) for v in range(1, 7)]
    pool.release([held[4], held[1]])
    rest = numbers(*(h for i, h in enumerate(held) if i not in (1, 4)))
    contents = pool.contents()
    assert contents[held[1]].tolist() == [0] * SIZE
    other.fill(contents.numpy(), rest)
    for one in (pool, other):
        one.reserve(3)
    assert [pool.refer(frame(v), []) for v in (50, 51, 52)] == [other.refer(frame(v), []) for v in (50, 51, 52)]
    assert np.array_equal(pool.contents(), other.contents())
    assert len(pool) == len(other) == 7


def test_a_cleared_pool_is_empty_and_as_large_as_before() -> None:
    pool = FramePool(SIZE, 8)
    pool.reserve(20)
    held = pool.refer(frame(3), [])
    before = pool.nbytes
    pool.clear()
    assert len(pool) == 0
    assert pool.nbytes == before
    assert pool.refer(frame(4), [held]) == held


@pytest.mark.parametrize(("lanes", "envs", "n_step"), [(None, 1, 1), (3, 2, 5)])
def test_about_one_frame_per_experience_is_allocated_in_advance(lanes: int | None, envs: int, n_step: int) -> None:
    spec = StorageSpec(10_000, obs=(12, 84, 84), action=2, stack=4, lanes=lanes, envs=envs, n_step=n_step)
    assert frame_bytes(spec) == 3 * 84 * 84 * 4  # float32
    assert needed(spec, 10) == (lanes or 1) * 80
    assert 1 < first_frames(spec) / ((lanes or 1) * 10_000) < 1.05
    assert pool_bytes(spec) == first_frames(spec) * frame_bytes(spec)
    assert pool_bytes(StorageSpec(10, obs=(4, 2), action=2)) == 0
