"""The frames of stacked observations, each stored once and counted.

Consecutive observations of an environment share all frames but one. A memory with `stack` stores the numbers of an
experience's frames, and the frames here.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from heapq import heappop, heappush

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from crystalrl.backends.alloc import zeros
from crystalrl.memory.storage.spec import StorageSpec

BLANK = 0
"""Number of the frame of zeros. It is always there, is not counted, and stands for what was never written."""
SLACK = 1 / 32
"""Frames allocated in advance beyond one per experience. Each episode needs one more than it has steps."""
GROWTH = 1 / 16
"""Part of the first allocation that is added when all frames are in use."""
CPU = torch.device("cpu")


def frame_bytes(spec: StorageSpec) -> int:
    """Bytes of one frame of a memory with `stack`."""
    assert spec.stack is not None
    assert isinstance(spec.obs, tuple)
    return math.prod(spec.obs) // spec.stack * spec.obs_dtypes[""].itemsize


def needed(spec: StorageSpec, width: int) -> int:
    """The most frames that `width` experiences of every lane can need."""
    assert spec.stack is not None
    return (spec.lanes or 1) * width * 2 * spec.stack


def first_frames(spec: StorageSpec) -> int:
    """Frames allocated in advance: about one per experience, and room for one call of `add`."""
    experiences = (spec.lanes or 1) * spec.capacity
    at_once = needed(spec, spec.envs * spec.n_step)
    return min(1 + math.ceil(experiences * (1 + SLACK)), 1 + needed(spec, spec.capacity)) + at_once


def pool_bytes(spec: StorageSpec) -> int:
    """Bytes of the frames that are allocated in advance; 0 if observations are stored whole."""
    return 0 if spec.stack is None else first_frames(spec) * frame_bytes(spec)


class FramePool:
    """Frames uint8[size] by number. Invariant: `count[i]` references to frame i > 0; it is free if there are none.

    The smallest free number is used first, so numbers depend only on which are in use. The frames are stored in parts:
    the first one is allocated in advance, and `reserve` adds others, all of one length.
    """

    def __init__(self, size: int, first: int) -> None:
        self.size, self.first, self.step = size, first, max(1, int(first * GROWTH))
        self.parts = [_frames(first, size)]
        self.count = np.zeros(first, np.int32)
        self.used = 1
        """All numbers in use are below this one."""
        self._free: list[int] = []
        """A heap of the free numbers below `used`."""
        self._blank = bytes(size)

    def __len__(self) -> int:
        """Frames in use, without the blank one."""
        return self.used - 1 - len(self._free)

    @property
    def nbytes(self) -> int:
        return len(self.count) * (self.size + self.count.itemsize)

    def room(self) -> int:
        """Frames that can be added before the pool must grow."""
        return len(self.count) - self.used + len(self._free)

    def missing(self, frames: int) -> int:
        """Bytes that `reserve(frames)` would allocate."""
        return max(0, -(-(frames - self.room()) // self.step)) * self.step * self.size

    def reserve(self, frames: int) -> None:
        """Make sure that this many frames can be added next."""
        while self.room() < frames:
            self.parts.append(_frames(self.step, self.size))
            self.count = np.concatenate([self.count, np.zeros(self.step, np.int32)])

    def refer(self, frame: NDArray[np.uint8], recent: Iterable[int]) -> int:
        """The number of a frame, with one reference more. It is stored, unless it is one of `recent` or blank."""
        content = frame.tobytes()
        if content == self._blank:
            return BLANK
        for number in recent:
            if self.count[number] and self.at(number).tobytes() == content:
                break
        else:
            number = self._new()
            self.at(number)[:] = frame
        self.count[number] += 1
        return number

    def _new(self) -> int:
        if self._free:
            return heappop(self._free)
        self.used += 1
        return self.used - 1

    def release(self, numbers: Iterable[int]) -> None:
        """Take back one reference for each of the numbers."""
        for number in numbers:
            if number != BLANK:
                self.count[number] -= 1
                if not self.count[number]:
                    heappush(self._free, number)

    def at(self, number: int) -> NDArray[np.uint8]:
        """One frame, as a writable view."""
        part, offset = (-1, number) if number < self.first else divmod(number - self.first, self.step)
        frame: NDArray[np.uint8] = self.parts[1 + part][offset]
        return frame

    def take(self, numbers: NDArray[np.int32]) -> NDArray[np.uint8]:
        """Copies [..., size] of the frames with these numbers [...]."""
        if len(self.parts) == 1:
            return self.parts[0].take(numbers, axis=0)
        frames = np.empty((numbers.size, self.size), np.uint8)
        for place, number in enumerate(numbers.reshape(-1).tolist()):
            frames[place] = self.at(number)
        return frames.reshape(*numbers.shape, self.size)

    def put(self, numbers: NDArray[np.int32], frames: NDArray[np.uint8]) -> None:
        """Store frames [M, size] under these numbers [M], which must be within the allocated ones."""
        for number, frame in zip(numbers.tolist(), frames, strict=True):
            self.at(number)[:] = frame

    def contents(self) -> Tensor:
        """A copy uint8[used, size] of the frames below `used`; zeros where a number is free."""
        frames = self.take(np.arange(self.used, dtype=np.int32))
        frames[self.count[: self.used] == 0] = 0
        return torch.from_numpy(frames)

    def fill(self, frames: NDArray[np.uint8], numbers: NDArray[np.int32]) -> None:
        """Hold `frames` [used, size] and nothing else; `numbers` [...] are all references to them."""
        self.clear()
        self.reserve(len(frames) - 1)
        self.used = len(frames)
        self.put(np.arange(len(frames), dtype=np.int32), frames)
        self.count[: self.used] = self.references(numbers, self.used)
        self._free = (np.flatnonzero(self.count[1 : self.used] == 0) + 1).tolist()  # in order, so a heap

    @staticmethod
    def references(numbers: NDArray[np.int32], used: int) -> NDArray[np.int64]:
        """How often each number below `used` occurs; the blank frame is not counted."""
        found = np.bincount(numbers.reshape(-1), minlength=used)
        found[BLANK] = 0
        return found

    def clear(self) -> None:
        """Free all frames. Allocated memory stays."""
        self.count[:] = 0
        self.used, self._free = 1, []


def _frames(count: int, size: int) -> NDArray[np.uint8]:
    return zeros((count, size), torch.uint8, CPU).numpy()
