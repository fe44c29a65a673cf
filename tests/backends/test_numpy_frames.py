"""Codes of frames: what they contain, and that decoding them gives the frames."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crystalrl.backends import numpy_frames
from crystalrl.backends.numpy_frames import ABOVE, BASE, BEFORE, LITERAL, MORE, SHORT
from tests.backends.frames import code_of, frames_and_steps, plain_decode


def code(base: list[int], frame: list[int], steps: tuple[int, int] = (1, 8)) -> list[int]:
    found = code_of(numpy_frames, np.array(frame, np.uint8), np.array(base, np.uint8), steps)
    return [] if found is None else found.tolist()


def test_a_frame_like_its_base_needs_no_bytes() -> None:
    assert code([5] * 20, [5] * 20) == []


def test_each_kind_of_piece_is_used_where_it_saves_most() -> None:
    base, seven = list(range(100, 140)), [1, 2, 3, 4, 5, 6, 7, 8]
    assert code(base, [9, *base[1:]]) == [LITERAL * 64, 9]
    assert code(base, [*base[:10], 9, *base[11:]]) == [BASE * 64 + 9, LITERAL * 64, 9]
    assert code(base, [9] * 40) == [LITERAL * 64, 9, BEFORE * 64 + 38]
    assert code(base, seven * 5) == [LITERAL * 64 + 7, *seven, ABOVE * 64 + 31]


@pytest.mark.parametrize("length", [1, SHORT, SHORT + 1, SHORT + MORE, SHORT + MORE + 1, SHORT + 2 * MORE + 1, 1000])
def test_pieces_of_any_length(length: int) -> None:
    out = np.zeros(20, np.uint8)
    after = numpy_frames._put(out, 2, ABOVE, length)
    assert after - 2 == numpy_frames._cost(length)
    assert numpy_frames._piece(out[:after], 2) == (ABOVE, length, after)


@pytest.mark.parametrize("seed", range(3))
def test_a_frame_of_noise_has_no_shorter_code(seed: int) -> None:
    rng = np.random.default_rng(seed)
    frame, base = rng.integers(0, 256, (2, 500), dtype=np.uint8)
    assert code_of(numpy_frames, frame, base, (1, 10)) is None


@settings(max_examples=200)
@given(frames_and_steps())
def test_every_frame_comes_back(drawn: tuple[np.ndarray, np.ndarray, tuple[int, int]]) -> None:
    frame, base, steps = drawn
    found = code_of(numpy_frames, frame, base, steps)
    if found is not None:
        assert len(found) < len(frame)
        assert plain_decode(found.tolist(), base.tolist(), steps) == frame.tolist()
        assert len(found) == 0 or numpy_frames.sound(found, len(frame), steps)
    out = np.full_like(frame, 77)
    numpy_frames.decode(frame if found is None else found, base, steps, out)
    assert np.array_equal(out, frame)


@settings(max_examples=300)
@given(st.lists(st.integers(0, 255), min_size=1, max_size=12), st.integers(1, 40), st.integers(1, 3), st.integers(1, 9))
def test_a_code_is_sound_if_it_can_be_decoded(code: list[int], size: int, near: int, row: int) -> None:
    given_code = np.array(code, np.uint8)
    whole, decoded = len(code) == size, plain_decode(code, [0] * size, (near, row))
    wanted = whole or (len(code) < size and decoded is not None)
    assert numpy_frames.sound(given_code, size, (near, row)) == wanted
