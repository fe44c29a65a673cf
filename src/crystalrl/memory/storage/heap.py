"""Byte strings of different lengths in one array, as chains of blocks of one size.

A freed block fits any later string, so memory is never fragmented and nothing has to be moved.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

BLOCK = 128
"""Bytes of a block, if strings may be longer. Half of a block per string is wasted, and four bytes per block name the
next one."""
GROWTH = 1 / 32
"""Smallest part of what is allocated that is added when all blocks are in use."""
BATCH = 1024
"""Strings that are copied at once when a heap is read or filled whole."""


class Heap:
    """Strings of at least one byte, named by their first block; the caller remembers their lengths. Invariant: a block
    belongs to one string, is one of the `free` ones, or is not below `used`.

    `following` is the next block of a string, or the next free one. The arrays are enlarged in place, so references to
    them must not outlive the next `reserve`.
    """

    def __init__(self, longest: int = BLOCK, width: int = BLOCK) -> None:
        self.width = min(longest, width)
        """Bytes of a block."""
        self.blocks = np.empty((0, self.width), np.uint8)
        self.following = np.zeros(0, np.int32)
        self.used = 0
        """All blocks in use are below this one."""
        self.free = 0
        """Free blocks below `used`; the first is `_head`."""
        self._head = 0

    @property
    def nbytes(self) -> int:
        return self.blocks.nbytes + self.following.nbytes

    def needed(self, length: Any) -> Any:
        """Blocks of a string of this many bytes, or of several."""
        return -(-length // self.width)

    def room(self) -> int:
        """Blocks that can be used before the heap must grow."""
        return len(self.blocks) - self.used + self.free

    def missing(self, blocks: int) -> int:
        """Bytes that `reserve(blocks)` would allocate."""
        return self._more(blocks) * (self.width + self.following.itemsize)

    def _more(self, blocks: int) -> int:
        short = blocks - self.room()
        return max(short, int(len(self.blocks) * GROWTH)) if short > 0 else 0

    def reserve(self, blocks: int) -> None:
        """Make sure that this many blocks can be used next."""
        if more := self._more(blocks):
            size = len(self.blocks) + more
            self.following.resize(size, refcheck=False)
            self.blocks.resize((size, self.width), refcheck=False)

    def put(self, string: NDArray[np.uint8]) -> int:
        """Store a string, for which there must be room; returns its first block."""
        chain = [self._new() for _ in range(self.needed(len(string)))]
        whole = len(string) // self.width
        self.blocks[chain[:whole]] = string[: whole * self.width].reshape(whole, self.width)
        if rest := len(string) - whole * self.width:
            self.blocks[chain[-1], :rest] = string[whole * self.width :]
        self.following[chain[:-1]] = chain[1:]
        return chain[0]

    def _new(self) -> int:
        if not self.free:
            self.used += 1
            return self.used - 1
        block, self.free = self._head, self.free - 1
        self._head = int(self.following[block])
        return block

    def drop(self, first: int, length: int) -> None:
        """Free the blocks of a string."""
        count, last = self.needed(length), first
        for _ in range(count - 1):
            last = int(self.following[last])
        self.following[last] = self._head
        self._head, self.free = first, self.free + count

    def clear(self) -> None:
        """Free all blocks. Allocated memory stays."""
        self.used = self.free = self._head = 0

    def contents(self, first: NDArray[np.int32], length: NDArray[np.int32]) -> NDArray[np.uint8]:
        """Copies of strings, one after another; length 0 stands for no string."""
        parts = [np.empty(0, np.uint8)]
        for some in _batches(len(first)):
            padded, inside = self._padded(length[some])
            at, blocks = first[some].copy(), inside[:, :: self.width]
            for place in range(blocks.shape[1]):
                here = blocks[:, place]
                padded[here, place * self.width : (place + 1) * self.width] = self.blocks[at[here]]
                at[here] = self.following[at[here]]
            parts.append(padded[inside])
        return np.concatenate(parts)

    def fill(self, strings: NDArray[np.uint8], length: NDArray[np.int32]) -> NDArray[np.int32]:
        """Hold these strings, which follow each other, and nothing else; returns the first block of each."""
        self.clear()
        blocks: NDArray[np.int32] = self.needed(length)
        first = np.cumsum(blocks) - blocks
        ends = np.cumsum(length, dtype=np.int64)
        self.reserve(int(blocks.sum()))
        for some in _batches(len(length)):
            padded, inside = self._padded(length[some])
            begin = int(ends[some][0]) - int(length[some][0])
            padded[inside] = strings[begin : int(ends[some][-1])]
            content = padded.reshape(len(padded), -1, self.width)[inside[:, :: self.width]]
            self.blocks[self.used : self.used + len(content)] = content
            self.used += len(content)
        self.following[: self.used] = np.arange(1, self.used + 1)
        return first.astype(np.int32)

    def _padded(self, length: NDArray[np.int32]) -> tuple[NDArray[np.uint8], NDArray[np.bool_]]:
        """Room [M, P] for strings padded to a whole number of blocks, and where their bytes are."""
        width = self.needed(int(length.max(initial=0))) * self.width
        return np.zeros((len(length), width), np.uint8), np.arange(width) < length[:, None]


def _batches(count: int) -> Iterator[slice]:
    return (slice(begin, min(begin + BATCH, count)) for begin in range(0, count, BATCH))
