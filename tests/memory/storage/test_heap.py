"""Byte strings in blocks."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from crystalrl.memory.storage.heap import BATCH, BLOCK, Heap


def string(length: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, length, dtype=np.uint8)


def chain(heap: Heap, first: int, length: int) -> list[int]:
    blocks = [first]
    while len(blocks) < heap.needed(length):
        blocks.append(int(heap.following[blocks[-1]]))
    return blocks


def read(heap: Heap, held: list[tuple[int, np.ndarray]]) -> np.ndarray:
    first, length = (np.array(x, np.int32) for x in ([f for f, _ in held], [len(s) for _, s in held]))
    return heap.contents(first, length)


@settings(max_examples=60)
@given(st.lists(st.tuples(st.integers(1, 5 * BLOCK), st.integers(0, 99), st.booleans()), max_size=60))
def test_strings_stay_as_they_are_and_every_block_has_one_use(steps: list[tuple[int, int, bool]]) -> None:
    heap, held = Heap(), list[tuple[int, np.ndarray]]()
    for length, seed, drop in steps:
        if drop and held:
            first, old = held.pop(seed % len(held))
            heap.drop(first, len(old))
        else:
            heap.reserve(heap.needed(length))
            assert heap.room() >= heap.needed(length)
            held.append((heap.put(string(length, seed)), string(length, seed)))
    assert np.array_equal(read(heap, held), np.concatenate([np.empty(0, np.uint8), *(s for _, s in held)]))
    used = [block for first, content in held for block in chain(heap, first, len(content))]
    free = chain(heap, heap._head, heap.free * BLOCK) if heap.free else []
    assert sorted(used + free) == list(range(heap.used))
    assert heap.room() == len(heap.blocks) - len(used)


def test_a_freed_block_is_used_again_before_the_heap_grows() -> None:
    heap = Heap()
    heap.reserve(8)
    long = heap.put(string(5 * BLOCK, 0))
    kept = heap.put(string(3 * BLOCK, 1))
    heap.drop(long, 5 * BLOCK)
    assert heap.missing(5) == 0
    others = [heap.put(string(1, seed)) for seed in range(5)]
    assert heap.room() == 0
    assert heap.missing(1) == BLOCK + 4
    assert sorted([*others, *chain(heap, kept, 3 * BLOCK)]) == list(range(8))


def test_a_heap_that_grows_keeps_what_it_holds_and_counts_what_it_allocates() -> None:
    heap, held = Heap(), []
    for seed in range(500):
        before, missing = heap.nbytes, heap.missing(3)
        heap.reserve(3)
        assert heap.nbytes - before == missing
        held.append((heap.put(string(2 * BLOCK + 1, seed)), string(2 * BLOCK + 1, seed)))
    assert np.array_equal(read(heap, held), np.concatenate([s for _, s in held]))
    assert heap.nbytes == len(heap.blocks) * (BLOCK + 4) <= 1.04 * 1500 * (BLOCK + 4)


@settings(max_examples=30)
@given(st.lists(st.integers(0, 3 * BLOCK), max_size=12), st.integers(1, 3))
def test_a_filled_heap_holds_the_strings_and_nothing_else(lengths: list[int], times: int) -> None:
    given_lengths = np.array(lengths * (times * BATCH // 10), np.int32)
    content = string(int(given_lengths.sum()), 1)
    heap = Heap()
    heap.reserve(1)
    heap.put(string(BLOCK, 0))
    first = heap.fill(content, given_lengths)
    assert np.array_equal(heap.contents(first, given_lengths), content)
    assert heap.used == sum(map(heap.needed, given_lengths.tolist()))
    assert heap.free == 0


def test_a_cleared_heap_is_empty_and_as_large_as_before() -> None:
    heap = Heap()
    heap.reserve(4)
    heap.drop(heap.put(string(BLOCK, 0)), BLOCK)
    heap.put(string(3 * BLOCK, 0))
    heap.clear()
    assert (heap.room(), heap.used, heap.free, len(heap.blocks)) == (4, 0, 0, 4)


def test_strings_that_are_never_longer_than_a_block_have_blocks_of_their_own_length() -> None:
    heap = Heap(longest=10)
    heap.reserve(2)
    held = [(heap.put(string(length, 0)), string(length, 0)) for length in (10, 3)]
    assert heap.nbytes == 2 * (10 + 4)
    assert np.array_equal(read(heap, held), np.concatenate([s for _, s in held]))
