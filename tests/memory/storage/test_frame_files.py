"""Frames in files: damaged ones are refused, those of earlier versions are read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from crystalrl import CrystalMemory, ReservoirMemory, Transition, UniformMemory, load_memory
from crystalrl.memory.storage.frame_arena import FrameArena
from crystalrl.memory.storage.frame_files import from_pixels
from crystalrl.memory.storage.frames import references
from crystalrl.memory.storage.header import CheckpointError
from tests.experience import assert_same_batch, assert_same_state
from tests.memory.storage.frame_streams import Pair


def uniform(dtype: Any = np.uint8) -> Pair:
    pair = Pair(UniformMemory, 2, 3, dtype, capacity=20)
    for _ in range(30):
        pair.add()
    return pair


def empty() -> ReservoirMemory:
    """A memory that stores frames as codes: its experiences leave in any order."""
    return ReservoirMemory(60, obs=(2, 20, 20), obs_dtype=torch.uint8, action=4, stack=2)


def drawn_line() -> ReservoirMemory:
    """Frames of 20 × 20 pixels; each step sets one more of them."""
    memory = empty()
    stack = np.random.default_rng(0).integers(0, 9, (1, 20, 20), dtype=np.uint8).repeat(2, 0)
    for number in range(60):
        follows = np.concatenate([stack[1:], stack[1:]])
        follows[1, number % 20, number % 20] = 100 + number
        memory.add(Transition(stack, 0, 0.0, follows, False))
        stack = follows
    return memory


def with_pixels(pair: Pair) -> dict[str, Tensor]:
    """The state as earlier versions wrote it: pixels of the frames that rows name, and recent numbers, perhaps free."""
    state, arena = pair.once.state_dict(), pair.once.arena
    assert isinstance(arena, FrameArena)
    named = references(arena._numbers, np.zeros(arena.pool.used, np.int32), arena.pool.used) > 0
    pixels = arena.pool.take(np.arange(arena.pool.used, dtype=np.int32)[:, None])[:, 0]
    own = {name: tensor for name, tensor in state.items() if not name.startswith("frames.")}
    old = torch.from_numpy(pixels * named[:, None])
    return {**own, "frames.pixels": old, "frames.recent": state["frames.recent"]}


@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
@pytest.mark.parametrize("options", [{}, {"lanes": 2, "envs": 2, "n_step": 3}])
@pytest.mark.parametrize("kind", [UniformMemory, ReservoirMemory, CrystalMemory])
def test_a_state_with_pixels_is_read(kind: Any, options: dict[str, Any], dtype: Any) -> None:
    pair = Pair(kind, 2, 3, dtype, capacity=20, **options)
    for _ in range(60):
        pair.add()
    pair.once.load_state_dict(with_pixels(pair))
    pair.whole.load_state_dict(pair.whole.state_dict())
    pair.compare()
    for _ in range(60):
        pair.add()
        pair.sample()
    pair.compare()


def test_a_frame_of_earlier_pixels_that_nothing_names_is_no_recent_one() -> None:
    pair = uniform()
    state = with_pixels(pair)
    state["frames.pixels"][3] = 0
    recent = from_pixels(
        {**state, "frames.recent": torch.tensor([[[3, 1, 3, 2, 0]]], dtype=torch.int32)}, pair.once.spec
    )
    assert recent["frames.recent"].tolist() == [[[0, 1, 0, 2, 0]]]


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("codes", torch.zeros(5, dtype=torch.int32), r"frames.codes: wanted torch.uint8 \[5\], got torch.int32 \[5\]"),
        ("codes", torch.zeros(5, dtype=torch.uint8), r"frames.codes: wanted \d+ bytes, got 5"),
        ("codes", [1, 2], "state frames.codes: wanted a tensor, got list"),
        ("length", torch.zeros(0, dtype=torch.int32), r"frames.length: wanted torch.int32 \[1\]"),
        ("length", torch.full((30,), 7, dtype=torch.int32), "frames.base: wanted"),
        ("base", torch.zeros((), dtype=torch.int32), "frames.base: wanted"),
        ("recent", torch.zeros(1, 1, 3, dtype=torch.int32), "frames.recent: wanted"),
        ("recent", torch.full((1, 1, 5), -1, dtype=torch.int32), "frames.recent: wanted values from 0"),
        ("since", torch.full((1, 1), -1, dtype=torch.int32), "frames.since: wanted values from 0"),
        ("since", torch.zeros(1, 1), "frames.since: wanted torch.int32"),
    ],
)
def test_a_state_with_other_frames_is_refused_and_nothing_changes(name: str, value: Any, message: str) -> None:
    pair = uniform()
    before = pair.once.state_dict()
    with pytest.raises(CheckpointError, match=message):
        pair.once.load_state_dict({**before, f"frames.{name}": value})
    assert_same_state(pair.once.state_dict(), before)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda s: s["base"].fill_(10**6), "frames.base: wanted values from 0"),
        (
            lambda s: s["base"].__setitem__(slice(1, None), 1),
            "frames.base: wanted frames that are relative to no other",
        ),
        (lambda s: s["length"].add_(100), "frames.length: wanted values from 0 to 400"),
        (lambda s: s["length"].__setitem__(0, 1), "the blank frame: wanted values from 0 to 0, got 1"),
        (lambda s: s["codes"].fill_(255), "frames.codes: wanted codes of 400 bytes, got another one"),
        (lambda s: s["recent"].fill_(len(s["length"])), "frames.recent: wanted values from 0"),
    ],
)
def test_impossible_codes_are_refused(change: Any, message: str) -> None:
    memory = drawn_line()
    state = memory.state_dict()
    assert len(set(state["frames.base"].tolist())) > 1
    change({name.removeprefix("frames."): tensor for name, tensor in state.items()})
    with pytest.raises(CheckpointError, match=message):
        memory.load_state_dict(state)


def test_rows_that_name_a_frame_without_a_code_are_refused() -> None:
    pair = uniform()
    state = pair.once.state_dict()
    length = state["frames.length"]
    state["frames.length"] = torch.cat([length, torch.zeros(1, dtype=torch.int32)])
    state["frames.base"] = torch.cat([state["frames.base"], torch.zeros(1, dtype=torch.int32)])
    state["frames.recent"][0, 0, 0] = len(length)
    with pytest.raises(CheckpointError, match="frames: wanted the codes of all frames that are named, got fewer"):
        pair.once.load_state_dict(state)


@pytest.mark.parametrize(("value", "dtype"), [(np.nan, np.float32), (np.inf, np.float32)])
def test_frames_that_are_not_finite_are_refused(value: float, dtype: Any) -> None:
    pair = uniform(dtype)
    state = with_pixels(pair)
    state["frames.pixels"].view(torch.float32)[1, 0] = value
    with pytest.raises(CheckpointError, match=f"frames: wanted finite numbers, got {value}"):
        pair.once.load_state_dict(state)


@pytest.mark.parametrize(
    "pixels", [torch.zeros(2, 5, dtype=torch.uint8), torch.zeros(2, 6), torch.zeros((), dtype=torch.uint8), [1, 2]]
)
def test_other_pixels_are_refused(pixels: Any) -> None:
    pair = uniform()
    before = pair.once.state_dict()
    with pytest.raises(CheckpointError, match=r"frames.pixels: wanted uint8 \[F, 16\], got"):
        pair.once.load_state_dict({**with_pixels(pair), "frames.pixels": pixels})
    assert_same_state(pair.once.state_dict(), before)


def test_a_file_holds_codes_not_pixels(tmp_path: Path) -> None:
    memory = drawn_line()
    memory.save(tmp_path / "file")
    assert (tmp_path / "file").stat().st_size < 60 * 400 / 2
    other = load_memory(tmp_path / "file")
    assert_same_state(other.state_dict(), memory.state_dict())
    assert_same_batch(other.sample(50), memory.sample(50))


def test_a_file_with_any_byte_changed_is_refused(tmp_path: Path) -> None:
    memory = drawn_line()
    memory.save(tmp_path / "file")
    whole, rng = (tmp_path / "file").read_bytes(), np.random.default_rng(0)
    for at in rng.integers(len(whole), size=20).tolist():
        (tmp_path / "file").write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        with pytest.raises(CheckpointError):
            load_memory(tmp_path / "file")
        (tmp_path / "file").write_bytes(whole[:at])
        with pytest.raises(CheckpointError):
            load_memory(tmp_path / "file")


def test_a_changed_state_is_refused_or_is_a_memory_that_can_be_used() -> None:
    whole, rng = drawn_line().state_dict(), np.random.default_rng(0)
    names, loaded = [name for name in whole if name.startswith("frames.")], 0
    for number in range(120):
        state = {name: tensor.clone() for name, tensor in whole.items()}
        content = state[names[number % len(names)]].view(torch.uint8).reshape(-1).numpy()
        content[rng.integers(len(content))] ^= 1 << int(rng.integers(8))
        memory = empty()
        try:
            memory.load_state_dict(state)
        except CheckpointError:
            assert len(memory) == 0
            continue
        loaded += 1
        memory.check()
        memory.sample(60)
        memory.add(Transition(np.zeros((2, 20, 20), np.uint8), 0, 0.0, np.ones((2, 20, 20), np.uint8), False))
        memory.check()
    assert 10 < loaded < 110
