"""Codes of frames, in plain NumPy: the reference, and what runs where numba is missing. `numba_frames` has the same
functions and gives the same bytes.

A frame u8[S] is described relative to a base frame u8[S], from its first byte to its last, as pieces. The first byte of
a piece has its kind in the two highest bits and its length, less one, in the others:

    LITERAL   the bytes follow                       BASE     as in the base frame
    BEFORE    as `near` bytes before in the frame    ABOVE    as `row` bytes before in the frame

63 in the lower bits means that more of the length follows: bytes of 255, and a last one below 255, all added. After the
last piece everything is as in the base. A frame whose code would not be shorter than S is stored as it is, so a
"code" of S bytes is the frame itself.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]

LITERAL, BASE, BEFORE, ABOVE = 0, 1, 2, 3
SHORTEST = 6
"""Bytes of the shortest copy. Shorter ones save little and take as long to decode as any."""
SHORT = 63
"""Lengths up to this are written into the first byte of a piece."""
MORE = 255
"""Value of a byte of a length that is followed by another."""


def encode(frame: Bytes, base: Bytes, steps: tuple[int, int], out: Bytes, limit: int) -> int:
    """Write the code of a frame to `out`, with steps (near, row); returns its length, or `limit` if it is not below."""
    runs = [_runs(frame == base), *(_runs(_repeats(frame, step)) for step in steps)]
    best = np.maximum.reduce(runs)
    following = _next(best >= SHORTEST)
    at = written = 0
    while at < len(frame):
        if literal := int(following[at]) - at:
            if written + _cost(literal) + literal >= limit:
                return limit
            written = _put(out, written, LITERAL, literal)
            out[written : written + literal] = frame[at : at + literal]
            at, written = at + literal, written + literal
            continue
        length = int(best[at])
        kind = next(kind for kind in (BASE, ABOVE, BEFORE) if runs[kind - BASE][at] == length)
        at += length
        if at < len(frame) or kind != BASE:
            if written + _cost(length) >= limit:
                return limit
            written = _put(out, written, kind, length)
    return written


def _repeats(frame: Bytes, step: int) -> NDArray[np.bool_]:
    """Where a frame has the same byte as `step` bytes before."""
    same = np.zeros(len(frame), bool)
    same[step:] = frame[step:] == frame[:-step]
    return same


def _next(mask: NDArray[np.bool_]) -> NDArray[np.int64]:
    """The first position from each one on where the mask holds; its length if there is none."""
    found = np.where(mask, np.arange(len(mask)), len(mask))
    return np.minimum.accumulate(found[::-1])[::-1]


def _runs(mask: NDArray[np.bool_]) -> NDArray[np.int64]:
    """For how many positions from each one on the mask holds."""
    return _next(~mask) - np.arange(len(mask))


def _cost(length: int) -> int:
    """Bytes that the kind and the length of a piece take."""
    return 1 if length <= SHORT else 2 + (length - 1 - SHORT) // MORE


def _put(out: Bytes, at: int, kind: int, length: int) -> int:
    """Write kind and length of a piece; returns the position after them."""
    if length <= SHORT:
        out[at] = kind * 64 + length - 1
        return at + 1
    many, rest = divmod(length - 1 - SHORT, MORE)
    out[at] = kind * 64 + SHORT
    out[at + 1 : at + 1 + many] = MORE
    out[at + 1 + many] = rest
    return at + 2 + many


def _piece(code: Bytes, at: int) -> tuple[int, int, int]:
    """Kind and length of the piece at a position, and the position after them; a code that ends there has length 0."""
    kind, length = divmod(int(code[at]), 64)
    at += 1
    if length < SHORT:
        return kind, length + 1, at
    while at < len(code):
        length += int(code[at])
        at += 1
        if code[at - 1] < MORE:
            return kind, length + 1, at
    return kind, 0, at


def decode(code: Bytes, base: Bytes, steps: tuple[int, int], out: Bytes) -> None:
    """Write the frame of a code to `out`."""
    if len(code) == len(out):
        out[:] = code
        return
    out[:] = base
    read = at = 0
    while read < len(code):
        kind, length, read = _piece(code, read)
        if kind == LITERAL:
            out[at : at + length] = code[read : read + length]
            read += length
        elif kind != BASE:
            step = steps[kind - BEFORE]
            out[at : at + length] = np.resize(out[at - step : at], length)
        at += length


def sound(code: Bytes, size: int, steps: tuple[int, int]) -> bool:
    """Whether a code describes a frame of `size` bytes; `decode` trusts it."""
    read = at = 0
    while read < len(code) < size:
        kind, length, read = _piece(code, read)
        read += length if kind == LITERAL else 0
        if kind > BASE and at < steps[kind - BEFORE]:
            return False
        at += length
        if length == 0 or at > size or read > len(code):
            return False
    return 0 < len(code) <= size


def take(numbers: NDArray[Any], heap: tuple[Any, Any], table: NDArray[Any], steps: tuple[int, int], out: Bytes) -> None:
    """Write the frames with numbers [M, K] to out u8[M, K, S].

    heap = (blocks u8[C, Z], following i32[C]); table i32[F, 4]: first block, bytes of the code, number of the base,
    references. Frame 0 is blank.
    """
    blank = np.zeros(out.shape[-1], np.uint8)
    frames = {0: blank}

    def frame(number: int) -> Bytes:
        if number not in frames:
            first, length, base, _ = table[number].tolist()
            frames[number] = np.empty_like(blank)
            decode(_read(heap, first, length), frame(base), steps, frames[number])
        return frames[number]

    for row, wanted in zip(out, numbers.tolist(), strict=True):
        row[:] = [frame(number) for number in wanted]
        frames = {0: blank}


def _read(heap: tuple[Any, Any], first: int, length: int) -> Bytes:
    """The bytes of a chain of blocks."""
    blocks, following = heap
    chain = [first]
    while len(chain) * blocks.shape[1] < length:
        chain.append(int(following[chain[-1]]))
    code: Bytes = blocks[chain].reshape(-1)[:length]
    return code
