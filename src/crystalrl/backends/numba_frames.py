"""Codes of frames, compiled by numba. `numpy_frames` describes them and has the same functions, with equal results."""

from __future__ import annotations

from typing import Any

import numpy as np

from crystalrl.backends.numba_jit import jit
from crystalrl.backends.numpy_frames import ABOVE, BASE, BEFORE, LITERAL, MORE, SHORT, SHORTEST

FIRST, LENGTH, PARENT = 0, 1, 2
"""Columns of the table of frames."""


@jit
def _put(out: Any, at: Any, kind: Any, length: Any) -> Any:
    """Write kind and length of a piece; returns the position after them."""
    if length <= SHORT:
        out[at] = kind * 64 + length - 1
        return at + 1
    out[at] = kind * 64 + SHORT
    rest, at = length - 1 - SHORT, at + 1
    while rest >= MORE:
        out[at] = MORE
        rest, at = rest - MORE, at + 1
    out[at] = rest
    return at + 1


@jit
def _cost(length: Any) -> Any:
    """Bytes that the kind and the length of a piece take."""
    return 1 if length <= SHORT else 2 + (length - 1 - SHORT) // MORE


@jit
def _longest(frame: Any, base: Any, near: Any, row: Any, at: Any) -> Any:
    """Length and kind of the longest copy from a position on."""
    stop, size, kind = at, len(frame), BASE
    while stop < size and frame[stop] == base[stop]:
        stop += 1
    best = stop
    if at >= row:
        stop = at
        while stop < size and frame[stop] == frame[stop - row]:
            stop += 1
        if stop > best:
            best, kind = stop, ABOVE
    if at >= near:
        stop = at
        while stop < size and frame[stop] == frame[stop - near]:
            stop += 1
        if stop > best:
            best, kind = stop, BEFORE
    return best - at, kind


@jit
def encode(frame: Any, base: Any, steps: Any, out: Any, limit: Any) -> Any:
    """See `numpy_frames.encode`."""
    near, row = steps
    at, written, size = 0, 0, len(frame)
    while at < size:
        first, length, kind = at, 0, BASE
        while at < size:
            byte = frame[at]
            if byte != base[at] and (at < row or byte != frame[at - row]) and (at < near or byte != frame[at - near]):
                at += 1
                continue
            length, kind = _longest(frame, base, near, row, at)
            if length >= SHORTEST:
                break
            at, length = at + 1, 0
        literal = at - first
        if literal:
            if written + _cost(literal) + literal >= limit:
                return limit
            written = _put(out, written, LITERAL, literal)
            for j in range(literal):
                out[written + j] = frame[first + j]
            written += literal
        at += length
        if length and (at < size or kind != BASE):
            if written + _cost(length) >= limit:
                return limit
            written = _put(out, written, kind, length)
    return written


@jit
def decode(code: Any, base: Any, steps: Any, out: Any) -> None:
    """See `numpy_frames.decode`."""
    if len(code) == len(out):
        for j in range(len(out)):
            out[j] = code[j]
        return
    near, row = steps
    for j in range(len(out)):
        out[j] = base[j]
    read: Any = 0
    at: Any = 0
    while read < len(code):
        kind, length = code[read] >> 6, np.int64(code[read] & SHORT)
        read += 1
        if length == SHORT:
            while code[read] == MORE:
                length, read = length + MORE, read + 1
            length, read = length + code[read], read + 1
        stop = at + length + 1
        if kind == LITERAL:
            for j in range(stop - at):
                out[at + j] = code[read + j]
            read += stop - at
        elif kind == ABOVE:
            _repeat(out, at, stop, row)
        elif kind == BEFORE:
            _repeat(out, at, stop, near)
        at = stop


@jit
def _repeat(out: Any, at: Any, stop: Any, step: Any) -> None:
    """Write what is `step` bytes before, a period at a time: a loop over parts that do not overlap is vectorised."""
    if step == 1:
        out[at:stop] = out[at - 1]
        return
    for begin in range(at, stop, step):
        source, target = out[begin - step : begin], out[begin : min(begin + step, stop)]
        for j in range(len(target)):
            target[j] = source[j]


@jit
def sound(code: Any, size: Any, steps: Any) -> Any:
    """See `numpy_frames.sound`."""
    near, row = steps
    read: Any = 0
    at: Any = 0
    count = len(code)
    if count == 0 or count >= size:
        return count == size
    while read < count:
        kind, length = code[read] >> 6, np.int64(code[read] & SHORT)
        read += 1
        if length == SHORT:
            while read < count and code[read] == MORE:
                length, read = length + MORE, read + 1
            if read == count:
                return False
            length, read = length + code[read], read + 1
        if (kind == BEFORE and at < near) or (kind == ABOVE and at < row):
            return False
        at += length + 1
        if kind == LITERAL:
            read += length + 1
        if at > size or read > count:
            return False
    return True


@jit
def _load(number: Any, heap: Any, table: Any, base: Any, steps: Any, code: Any, out: Any) -> None:
    """Write one frame, whose base is given; code u8[S] is overwritten."""
    blocks, following = heap
    block, length, width = table[number, FIRST], table[number, LENGTH], blocks.shape[1]
    for begin in range(0, length, width):
        for j in range(min(width, length - begin)):
            code[begin + j] = blocks[block, j]
        block = following[block]
    decode(code[:length], base, steps, out)


@jit
def take(numbers: Any, heap: Any, table: Any, steps: Any, out: Any) -> None:
    """See `numpy_frames.take`."""
    size = out.shape[2]
    code, base, blank = np.empty(size, np.uint8), np.empty(size, np.uint8), np.zeros(size, np.uint8)
    held = 0  # number of the frame in `base`
    for m in range(numbers.shape[0]):
        for k in range(numbers.shape[1]):
            number, earlier = numbers[m, k], 0
            while numbers[m, earlier] != number:
                earlier += 1
            if number == 0 or earlier < k:
                source = blank if number == 0 else out[m, earlier]
                for j in range(size):
                    out[m, k, j] = source[j]
                continue
            parent = table[number, PARENT]
            if parent != 0 and parent != held:
                _load(parent, heap, table, blank, steps, code, base)
                held = parent
            _load(number, heap, table, base if parent != 0 else blank, steps, code, out[m, k])
