"""What is damaged, of another version, kind or shape is refused, and the memory stays as it was."""

from __future__ import annotations

import hashlib
import os
import random
import re
from pathlib import Path
from typing import Any

import pytest
import torch

from crystalrl import CheckpointError, PrioritizedMemory, UniformMemory, load_memory
from crystalrl.memory import ReplayMemory
from tests.experience import MEMORIES, SMALL, assert_same_state, feed
from tests.memory.storage.lives import lively

HEADER = re.compile(rb'"checksum":"([0-9a-f]{64})"')


def damaged(original: bytes, rng: random.Random) -> tuple[str, bytes]:
    """One random corruption that changes the bytes."""
    while True:
        data = bytearray(original)
        how = rng.choice(["flip", "flip in the header", "truncate", "zero", "noise", "append", "remove", "swap"])
        at = rng.randrange(len(data))
        length = min(rng.choice([1, 8, 64, 500]), len(data) - at)
        if how == "flip":
            data[at] ^= 1 << rng.randrange(8)
        elif how == "flip in the header":
            data[rng.randrange(2_000)] ^= 1 << rng.randrange(8)
        elif how == "truncate":
            del data[at:]
        elif how == "zero":
            data[at : at + length] = bytes(length)
        elif how == "noise":
            data[at : at + length] = rng.randbytes(length)
        elif how == "append":
            data += rng.randbytes(length)
        elif how == "remove":
            del data[at : at + length]
        else:
            other = rng.randrange(len(data))
            data[at], data[other] = data[other], data[at]
        if bytes(data) != original:
            return how, bytes(data)


def test_none_of_five_hundred_corruptions_is_loaded_silently(tmp_path: Path) -> None:
    memory = lively(PrioritizedMemory)
    path = tmp_path / "m"
    memory.save(path)
    original, before = path.read_bytes(), memory.state_dict()
    rng = random.Random(0)
    for _ in range(500):
        how, data = damaged(original, rng)
        path.write_bytes(data)
        with pytest.raises(CheckpointError):
            memory.load(path)
        with pytest.raises(CheckpointError):
            pytest.fail(f"{how}: {load_memory(path)!r} was loaded")
    assert_same_state(before, memory.state_dict())
    path.write_bytes(original)
    memory.load(path)


@pytest.mark.parametrize("content", [b"", b"\x00", b"\xff" * 8, b"\x00" * 4096, b"{}", os.urandom(10_000)])
def test_files_that_never_were_memories_are_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "m").write_bytes(content)
    with pytest.raises(CheckpointError, match="m: "):
        load_memory(tmp_path / "m")


def resealed(data: bytes) -> bytes:
    """The same file with a checksum that fits."""
    blank = HEADER.sub(b'"checksum":"' + b"0" * 64 + b'"', data)
    digest = hashlib.sha256(blank).hexdigest().encode()
    return HEADER.sub(b'"checksum":"' + digest + b'"', blank)


def edited(data: bytes, old: bytes, new: bytes) -> bytes:
    assert data.count(old) == 1
    assert len(old) == len(new)
    return resealed(data.replace(old, new))


def test_resealing_an_untouched_file_gives_the_same_file(tmp_path: Path) -> None:
    UniformMemory(5, **SMALL).save(tmp_path / "m")
    data = (tmp_path / "m").read_bytes()
    assert resealed(data) == data


def test_a_file_of_another_version_is_refused_with_both_versions(tmp_path: Path) -> None:
    memory = UniformMemory(5, **SMALL)
    feed(memory, 3)
    before = memory.state_dict()
    memory.save(tmp_path / "m")
    data = (tmp_path / "m").read_bytes()
    (tmp_path / "m").write_bytes(edited(data, b'"crystalrl":"2"', b'"crystalrl":"7"'))
    for load in (load_memory, memory.load):
        with pytest.raises(CheckpointError, match="wanted format 2, got 7"):
            load(tmp_path / "m")
    assert_same_state(before, memory.state_dict())


def test_a_file_of_an_unknown_kind_is_refused(tmp_path: Path) -> None:
    UniformMemory(5, **SMALL).save(tmp_path / "m")
    data = (tmp_path / "m").read_bytes()
    (tmp_path / "m").write_bytes(edited(data, b"UniformMemory", b"UnicornMemory"))
    with pytest.raises(CheckpointError, match=r"wanted one of .*UniformMemory.*got UnicornMemory"):
        load_memory(tmp_path / "m")


OTHERS: list[dict[str, Any]] = [
    {"capacity": 6},
    {"obs": (3,)},
    {"obs": {"a": (2,)}},
    {"action": 5},
    {"action": (4,)},
    {"obs_dtype": torch.float64},
    {"lanes": 1},
    {"lanes": 2},
    {"envs": 2},
    {"n_step": 2},
    {"gamma": 0.5},
    {"context": True},
]


@pytest.mark.parametrize("other", OTHERS)
def test_a_file_of_another_shape_is_refused_and_nothing_changes(tmp_path: Path, other: dict[str, Any]) -> None:
    UniformMemory(**{"capacity": 5, **SMALL, **other}).save(tmp_path / "m")
    memory = UniformMemory(5, **SMALL)
    feed(memory, 3)
    before = memory.state_dict()
    with pytest.raises(CheckpointError, match=r"wanted structure .*got "):
        memory.load(tmp_path / "m")
    assert_same_state(before, memory.state_dict())


def test_a_file_of_another_kind_is_refused_and_nothing_changes(tmp_path: Path) -> None:
    PrioritizedMemory(5, **SMALL).save(tmp_path / "m")
    memory = UniformMemory(5, **SMALL)
    feed(memory, 3)
    before = memory.state_dict()
    with pytest.raises(CheckpointError, match="wanted kind UniformMemory, got PrioritizedMemory"):
        memory.load(tmp_path / "m")
    assert_same_state(before, memory.state_dict())


@pytest.mark.parametrize("damage", ["missing", "extra", "shape", "dtype", "long"])
@pytest.mark.parametrize("kind", MEMORIES)
def test_a_state_that_does_not_fit_is_refused_and_nothing_changes(kind: type[ReplayMemory], damage: str) -> None:
    memory = lively(kind)
    before, state = memory.state_dict(), memory.state_dict()
    name = "memory.slot.rows"
    if damage == "missing":
        del state[name]
    elif damage == "extra":
        state["ghost"] = torch.zeros(1)
    elif damage == "dtype":
        state[name] = state[name].double()
    else:
        state[name] = torch.cat([state[name]] * 2, 1) if damage == "long" else state[name][:1]
    with pytest.raises(ValueError, match="wanted"):
        memory.load_state_dict(state)
    assert_same_state(before, memory.state_dict())
