"""The frames of stacked observations, each stored once, as a code, and counted.

Consecutive observations of an environment share all frames but one. A memory with `stack` stores the numbers of an
experience's frames, and the frames here.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from heapq import heappop, heappush
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from crystalrl.backends import backend_for
from crystalrl.memory.storage.heap import Heap
from crystalrl.memory.storage.spec import StorageSpec

BLANK = 0
"""Number of the frame of zeros. It always exists, is not counted, and stands for what was never written."""
FIRST, LENGTH, BASE, COUNT = range(4)
"""Columns of the table of frames: first block and bytes of the code, number of the base, references."""
GROWTH = 1 / 32
"""Smallest part of the table that is added when all numbers are in use."""
WORTH = 0.75
"""A code relative to another frame is kept if it is not longer than this fraction of the frame's own code."""
Frame = NDArray[np.uint8]


def frame_bytes(spec: StorageSpec) -> int:
    """Bytes of one frame of a memory with `stack`."""
    assert spec.stack is not None
    assert isinstance(spec.obs, tuple)
    return math.prod(spec.obs) // spec.stack * spec.obs_dtypes[""].itemsize


def frame_steps(spec: StorageSpec) -> tuple[int, int]:
    """Bytes from an element of a frame to the one before it, and to the one above it."""
    assert isinstance(spec.obs, tuple)
    size = spec.obs_dtypes[""].itemsize
    return size, size * (spec.obs[-1] if len(spec.obs) > 2 else 1)


def recent_frames(spec: StorageSpec) -> int:
    """Frames of an environment with which new ones are compared: those of its last experiences, also with n steps
    between obs and next_obs."""
    assert spec.stack is not None
    return spec.stack + 2 * spec.n_step


def needed(spec: StorageSpec, width: int) -> int:
    """Maximum number of frames that `width` experiences of every lane can need."""
    assert spec.stack is not None
    return (spec.lanes or 1) * width * 2 * spec.stack


class FramePool:
    """Frames uint8[size] by number, in the codes of `backends.numpy_frames`, relative to a base: another frame, which
    is itself coded relative to the blank one, or the blank one.

    Invariant: a frame i > 0 has `count[i]` references, those of other frames to their base included; the number is
    free, and its length 0, if there are none. The smallest free number is used first, so numbers depend only on which
    are in use.
    """

    def __init__(self, size: int, steps: tuple[int, int], coded: bool = True) -> None:
        self.size, self.steps, self.coded = size, steps, coded
        self.loops = backend_for(torch.device("cpu")).frames
        self.heap = Heap(size) if coded else Heap(size, width=size)
        self.table = np.zeros((1, 4), np.int32)
        self.used = 1
        """All numbers in use are below this one."""
        self._free: list[int] = []
        """A heap of the free numbers below `used`."""
        self._blank, self._scratch = np.zeros(size, np.uint8), np.empty(size, np.uint8)

    def __len__(self) -> int:
        """Frames in use, without the blank one."""
        return self.used - 1 - len(self._free)

    @property
    def count(self) -> NDArray[np.int32]:
        """References to each number, as a view."""
        return self.table[:, COUNT]

    @property
    def nbytes(self) -> int:
        return self.heap.nbytes + self.table.nbytes

    def _more(self, frames: int) -> int:
        """Numbers that are missing to add this many frames."""
        short = frames - (len(self.table) - self.used + len(self._free))
        return max(short, int(len(self.table) * GROWTH)) if short > 0 else 0

    def missing(self, frames: int) -> int:
        """Bytes that `reserve(frames)` would allocate."""
        return self.heap.missing(frames * self.heap.needed(self.size)) + self._more(frames) * int(self.table.strides[0])

    def reserve(self, frames: int) -> None:
        """Make sure that this many frames can be added next, whatever they show."""
        if more := self._more(frames):
            self.table.resize((len(self.table) + more, 4), refcheck=False)
        self.heap.reserve(frames * self.heap.needed(self.size))

    def add(self, frame: Frame, base: int = BLANK) -> int:
        """Store a frame, relative to `base` where that saves enough; returns its number, with one more reference. It
        is the number of the base if they are the same. A pool that is not `coded` stores every frame as it is."""
        if not self.coded:
            return self._store(frame, BLANK)
        if base != BLANK:
            limit = 1 + int(WORTH * int(self.table[base, LENGTH]))
            length = self._encode(frame, self.take(np.array([base], np.int32))[0], limit)
            if length == 0:
                return self.hold(base)
            if length < limit:
                return self._store(self._scratch[:length], self.hold(base))
        length = self._encode(frame, self._blank, self.size)
        return self._store(self._scratch[:length] if length < self.size else frame, BLANK)

    def _encode(self, frame: Frame, base: Frame, limit: int) -> int:
        return int(self.loops.encode(frame, base, self.steps, self._scratch, min(limit, self.size)))

    def _store(self, code: Frame, base: int) -> int:
        number = self._new()
        self.table[number] = self.heap.put(code), len(code), base, 1
        return number

    def _new(self) -> int:
        if self._free:
            return heappop(self._free)
        self.used += 1
        return self.used - 1

    def base(self, number: int) -> int:
        """The frame relative to which others like this one are coded: its base, or the frame itself."""
        return int(self.table[number, BASE]) or number

    def hold(self, number: int) -> int:
        """Add a reference to a frame in use; returns its number."""
        if number != BLANK:
            self.table[number, COUNT] += 1
        return number

    def release(self, numbers: Iterable[int]) -> None:
        """Take back one reference for each of the numbers."""
        for number in numbers:
            if number != BLANK:
                self.table[number, COUNT] -= 1
                if not self.table[number, COUNT]:
                    self._forget(number)

    def _forget(self, number: int) -> None:
        first, length, base, _ = self.table[number].tolist()
        self.heap.drop(first, length)
        self.table[number] = 0
        heappush(self._free, number)
        self.release([base])

    def take(self, numbers: NDArray[np.int32]) -> Frame:
        """Copies [..., size] of the frames with these numbers [...]."""
        if not self.coded and bool((self.table[numbers, LENGTH] == self.size)[numbers != BLANK].all()):
            return self._whole(numbers)
        frames = np.empty((*numbers.shape, self.size), np.uint8)
        wanted = numbers.reshape(-1, numbers.shape[-1])
        heap = (self.heap.blocks, self.heap.following)
        self.loops.take(wanted, heap, self.table, self.steps, frames.reshape(*wanted.shape, self.size))
        return frames

    def _whole(self, numbers: NDArray[np.int32]) -> Frame:
        """`take` of frames that are stored as they are, each in one block."""
        frames: Frame = self.heap.blocks.take(self.table[numbers, FIRST], axis=0)
        frames[numbers == BLANK] = 0
        return frames

    def copy_from(self, source: FramePool, numbers: NDArray[np.int32]) -> None:
        """Copy frames, and their bases, under the same numbers. The copy counts no references: it is only read."""
        numbers = np.union1d(numbers, source.table[numbers, BASE])
        codes, length = source._codes(numbers), source.table[numbers, LENGTH]
        self.table.resize((max(len(self.table), source.used), 4), refcheck=False)
        self.heap.reserve(int(self.heap.needed(length).sum()))
        for number, code in zip(numbers.tolist(), np.split(codes, np.cumsum(length)[:-1]), strict=True):
            if self.table[number, LENGTH]:
                self.heap.drop(*self.table[number, :BASE].tolist())
            if number != BLANK:
                self.table[number] = self.heap.put(code), len(code), source.table[number, BASE], 0

    def _codes(self, numbers: Any = slice(None)) -> Frame:
        """The codes of frames, one after another; those of free numbers and of the blank frame are empty."""
        return self.heap.contents(self.table[numbers, FIRST], self.table[numbers, LENGTH])

    def state(self) -> tuple[Frame, NDArray[np.int32], NDArray[np.int32]]:
        """Copies of all codes, and of length [used] and base [used] of each; 0 where a number is free."""
        held = self.table[: self.used]
        return self._codes(slice(self.used)), held[:, LENGTH].copy(), held[:, BASE].copy()

    def fill(self, codes: Frame, length: NDArray[np.int32], base: NDArray[np.int32], named: NDArray[np.int32]) -> None:
        """Hold the frames of `state` that are in `named` [...], where each reference to one occurs, and their bases."""
        self.clear()
        self.used = len(length)
        count = references(named, base, self.used)
        free = np.flatnonzero((length > 0) & (count == 0))
        self.table.resize((max(len(self.table), self.used), 4), refcheck=False)
        first = self.heap.fill(codes, length)
        self.table[: self.used] = np.stack([first, length, base, count], 1)
        for number in free.tolist():
            self.heap.drop(*self.table[number, :BASE].tolist())
        self.table[free] = 0
        self._free = (np.flatnonzero(count[1:] == 0) + 1).tolist()  # in order, so a heap

    def clear(self) -> None:
        """Free all frames. Allocated memory stays."""
        self.table[:] = 0
        self.heap.clear()
        self.used, self._free = 1, []


def references(named: NDArray[np.int32], base: NDArray[np.int32], used: int) -> NDArray[np.int32]:
    """How often each number below `used` is in `named` [...], or the base [used] of one that is; the blank frame is
    not counted."""
    count = np.bincount(named.reshape(-1), minlength=used)
    count[BLANK] = 0
    count += np.bincount(base[count > 0], minlength=used)
    count[BLANK] = 0
    return count.astype(np.int32)
