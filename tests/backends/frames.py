"""Codes of frames, for tests: any frames and steps, and a decoder of a few plain lines."""

from __future__ import annotations

from types import ModuleType

import numpy as np
from hypothesis import strategies as st

from crystalrl.backends.numpy_frames import BASE, LITERAL

Drawn = tuple[np.ndarray, np.ndarray, tuple[int, int]]


def code_of(loops: ModuleType, frame: np.ndarray, base: np.ndarray, steps: tuple[int, int]) -> np.ndarray | None:
    """The code of a frame; None if it would not be shorter."""
    out = np.zeros_like(frame)
    length = loops.encode(frame, base, steps, out, len(frame))
    return out[:length] if length < len(frame) else None


@st.composite
def frames_and_steps(draw: st.DrawFn) -> Drawn:
    """A frame, its base and steps; pieces of the frame repeat what is before, above or in the base."""
    size = draw(st.integers(1, 400))
    steps = draw(st.tuples(st.integers(1, 4), st.integers(1, 30)))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    base = rng.integers(0, 3, size, dtype=np.uint8)
    frame, at = base.copy(), 0
    while at < size:
        stop, kind = at + int(rng.integers(1, 120)), int(rng.integers(4))
        for j in range(at, min(stop, size)):
            step = steps[kind - 2] if kind > 1 else 0
            frame[j] = frame[j - step] if 0 < step <= j else rng.integers(256) if kind == 1 else base[j]
        at = stop
    return frame, base, steps


def plain_decode(code: list[int], base: list[int], steps: tuple[int, int]) -> list[int] | None:
    """The frame that a code shorter than a frame describes; None if it describes none."""
    frame, rest = list[int](), list(code)
    while rest:
        kind, length = divmod(rest.pop(0), 64)
        while length >= 63:
            if not rest:
                return None
            length += (more := rest.pop(0))
            if more < 255:
                break
        for _ in range(length + 1):
            step = steps[kind - 2] if kind > 1 else 0
            if step > len(frame) or len(frame) == len(base) or (kind == LITERAL and not rest):
                return None
            at = len(frame)
            frame.append(rest.pop(0) if kind == LITERAL else base[at] if kind == BASE else frame[at - step])
    return frame + base[len(frame) :]
