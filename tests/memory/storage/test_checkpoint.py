"""Files: what is loaded continues bit for bit, what is damaged is refused, what was there before survives."""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import random
import re
import resource
import shutil
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from crystalrl import CheckpointError, PrioritizedMemory, UniformMemory, load_memory
from crystalrl.memory import ReplayMemory
from crystalrl.memory.storage import checkpoint
from tests.experience import (
    MEMORIES,
    MIXED,
    PLAIN,
    assert_same_batch,
    assert_same_state,
    feed,
    random_step,
    simple,
    stacked,
)

SMALL: dict[str, Any] = {"obs": (2,), "action": 4}
HEADER = re.compile(rb'"checksum":"([0-9a-f]{64})"')


def lively(kind: type[ReplayMemory], seed: int = 3, **options: Any) -> ReplayMemory:
    """A memory in the middle of its life: full, drawn from, updated, with open n-step windows."""
    memory = kind(60, **{**MIXED, "lanes": 2, "envs": 2, "n_step": 3, "context": True, "seed": seed, **options})
    work(memory, 60, np.random.default_rng(seed))
    return memory


def work(memory: ReplayMemory, steps: int, rng: np.random.Generator) -> None:
    mixed = isinstance(memory.spec.obs, dict)
    for k in range(steps):
        rows = [
            [random_step(rng, mixed, memory.spec.context, ending=0.05) for _ in range(memory.spec.envs)]
            for _ in range(memory.lanes)
        ]
        memory.add(stacked(rows, memory.spec.lanes))
        if k > 20 and k % 3 == 0:
            batch = memory.sample(16)
            memory.update(batch, rng.normal(size=tuple(batch.index.shape)))
    if memory.ledger.count.min() > 0:
        memory.sample(8)  # drawn but not yet updated


@pytest.mark.parametrize("fresh", [False, True])
@pytest.mark.parametrize("kind", MEMORIES)
def test_after_load_the_next_thousand_batches_are_the_same(
    backend: str, tmp_path: Path, kind: type[ReplayMemory], fresh: bool
) -> None:
    memory = lively(kind)
    memory.save(tmp_path / "m")
    other = load_memory(tmp_path / "m") if fresh else lively(kind, seed=99)
    if not fresh:
        other.load(tmp_path / "m")
    assert_same_state(memory.state_dict(), other.state_dict())
    other.check()
    rng = np.random.default_rng(0)
    for k in range(1_000):
        one, two = memory.sample(32), other.sample(32)
        assert_same_batch(one, two)
        error = rng.normal(size=tuple(one.index.shape))
        memory.update(one, error)
        other.update(two, error)
        if k % 10 == 0:
            step = stacked([[random_step(rng, True, True) for _ in range(2)] for _ in range(2)], 2)
            assert torch.equal(memory.add(step), other.add(step))
    assert_same_state(memory.state_dict(), other.state_dict())


@pytest.mark.parametrize("kind", MEMORIES)
def test_an_empty_memory_can_be_saved_and_loaded(tmp_path: Path, kind: type[ReplayMemory]) -> None:
    memory = kind(30, **PLAIN)
    memory.save(tmp_path / "m")
    other = load_memory(tmp_path / "m")
    assert len(other) == 0
    other.check()
    full = kind(30, **PLAIN)
    work(full, 50, np.random.default_rng(0))
    full.load(tmp_path / "m")
    assert len(full) == 0
    full.check()


def test_an_update_that_was_under_way_is_still_understood_after_loading(tmp_path: Path) -> None:
    memory = PrioritizedMemory(2, **SMALL, alpha=1.0, epsilon=1e-9)
    feed(memory, 2)
    batch = memory.sample(2)
    while set(batch.index.tolist()) != {0, 1}:
        batch = memory.sample(2)
    memory.add(simple(2))
    memory.save(tmp_path / "m")
    other = load_memory(tmp_path / "m")
    other.update(batch, torch.tensor([5.0, 5.0]))
    assert other.ledger.tree.weight[0, :2].tolist() == [1.0, 5.0]


def test_draws_from_before_a_load_are_forgotten(tmp_path: Path) -> None:
    """A slot that was drawn, and is empty in the file, is as good as new: what is stored there next can be updated."""
    memory = PrioritizedMemory(8, **SMALL)
    memory.save(tmp_path / "empty")
    memory.add(simple(0))
    memory.sample(1)
    memory.load(tmp_path / "empty")
    slot = memory.add(simple(1))
    memory.update(slot[None], torch.tensor([3.0]))
    assert float(memory.ledger.tree.weight[0, slot]) == pytest.approx(3.0**0.6, rel=1e-5)


@pytest.mark.parametrize("names", [("z", "a", "m"), ("a", "m", "z")])
def test_parts_of_a_dict_observation_keep_their_names_in_whatever_order_they_were_declared(
    tmp_path: Path, names: tuple[str, ...]
) -> None:
    memory = UniformMemory(4, obs={name: (ord(name) % 5 + 1,) for name in names}, action=2)
    obs = {name: np.full(ord(name) % 5 + 1, ord(name), np.float32) for name in names}
    step = simple(0)
    memory.add(type(step)(obs, 0, 0.0, obs, False))
    memory.save(tmp_path / "m")
    other = UniformMemory(4, obs={name: (ord(name) % 5 + 1,) for name in sorted(names, reverse=True)}, action=2)
    other.load(tmp_path / "m")
    for loaded in (load_memory(tmp_path / "m"), other):
        batch = loaded.sample(1)
        for name in names:
            assert batch.obs[name].tolist() == [[ord(name)] * (ord(name) % 5 + 1)]
            assert batch.next_obs[name].tolist() == [[ord(name)] * (ord(name) % 5 + 1)]


def test_parameters_come_back_with_load_memory(tmp_path: Path) -> None:
    memory = PrioritizedMemory(5, **PLAIN, lanes=2, alpha=[0.1, 0.9], beta=0.3, is_steps=77, epsilon=0.2)
    memory.save(tmp_path / "m")
    other = load_memory(tmp_path / "m")
    assert type(other) is PrioritizedMemory
    assert list(other.params.alpha) == [0.1, 0.9]
    assert (other.params.beta, other.params.is_steps, other.params.epsilon) == (0.3, 77, 0.2)


def test_a_file_holds_only_what_is_used(tmp_path: Path) -> None:
    memory = UniformMemory(100_000, obs=(50,), action=2)
    memory.save(tmp_path / "empty")
    assert (tmp_path / "empty").stat().st_size < 10_000


def test_no_pickle_is_read_or_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("pickle was used")

    memory = lively(PrioritizedMemory)
    for name in ("Unpickler", "Pickler", "load", "loads", "dump", "dumps"):
        monkeypatch.setattr(pickle, name, refuse)
    monkeypatch.setattr(torch, "load", refuse)
    monkeypatch.setattr(torch, "save", refuse)
    memory.save(tmp_path / "m")
    assert_same_state(load_memory(tmp_path / "m").state_dict(), memory.state_dict())


def test_a_pickle_is_refused_and_not_run(tmp_path: Path) -> None:
    class Trap:
        def __reduce__(self) -> tuple[Any, ...]:
            return (Path(tmp_path / "ran").touch, ())

    (tmp_path / "m").write_bytes(pickle.dumps(Trap()))
    torch.save({"a": torch.zeros(3)}, tmp_path / "t")
    for name in ("m", "t"):
        with pytest.raises(CheckpointError):
            load_memory(tmp_path / name)
    assert not (tmp_path / "ran").exists()


# --- damage ---------------------------------------------------------------------------------------------------------


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


def test_a_state_is_a_copy(tmp_path: Path) -> None:
    memory = lively(PrioritizedMemory)
    state = memory.state_dict()
    kept = {name: tensor.clone() for name, tensor in state.items()}
    work(memory, 10, np.random.default_rng(8))
    assert_same_state(state, kept)
    memory.load_state_dict(state)
    work(memory, 10, np.random.default_rng(9))
    assert_same_state(state, kept)


# --- places ---------------------------------------------------------------------------------------------------------


def test_a_folder_or_a_missing_file_is_not_a_memory(tmp_path: Path) -> None:
    memory = UniformMemory(5, **SMALL)
    feed(memory, 3)
    before = memory.state_dict()
    for load in (load_memory, memory.load):
        with pytest.raises(CheckpointError, match="folder"):
            load(tmp_path)
        with pytest.raises(FileNotFoundError, match="nothing"):
            load(tmp_path / "nothing")
    assert_same_state(before, memory.state_dict())


def test_a_device_or_a_pipe_which_may_never_end_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (Path("/dev/full"), tmp_path / "pipe"):
        with pytest.raises(CheckpointError, match="wanted a file, got a device or pipe"):
            load_memory(path)


def test_saving_over_a_link_replaces_the_link_and_not_what_it_names(tmp_path: Path) -> None:
    memory, link = UniformMemory(8, obs=(2,), action=4), tmp_path / "memory"
    link.symlink_to("/dev/full")
    memory.save(link)
    assert not link.is_symlink()
    load_memory(link).check()
    assert Path("/dev/full").is_char_device()


def test_saving_over_a_folder_or_into_a_missing_one_fails_and_leaves_no_trace(tmp_path: Path) -> None:
    memory = UniformMemory(5, **SMALL)
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "file").write_text("kept")
    with pytest.raises(OSError, match="folder"):
        memory.save(tmp_path / "folder")
    with pytest.raises(FileNotFoundError):
        memory.save(tmp_path / "nowhere" / "m")
    assert [p.name for p in tmp_path.iterdir()] == ["folder"]
    assert (tmp_path / "folder" / "file").read_text() == "kept"


@contextmanager
def as_nobody() -> Iterator[None]:
    """Without the rights of the superuser, who may read everything."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


def test_an_unreadable_file_is_an_error_and_nothing_changes(tmp_path: Path) -> None:
    memory = UniformMemory(5, **SMALL)
    feed(memory, 3)
    memory.save(tmp_path / "m")
    before = memory.state_dict()
    (tmp_path / "m").chmod(0)
    with as_nobody(), pytest.raises(PermissionError):
        memory.load(tmp_path / "m")
    with as_nobody(), pytest.raises(PermissionError):
        load_memory(tmp_path / "m")
    assert_same_state(before, memory.state_dict())


def test_a_folder_without_write_permission_keeps_its_file(tmp_path: Path) -> None:
    folder = Path("/tmp") / f"crystalrl-{os.getpid()}"
    folder.mkdir()
    try:
        memory = UniformMemory(5, **SMALL)
        memory.save(folder / "m")
        old = (folder / "m").read_bytes()
        feed(memory, 3)
        folder.chmod(0o555)
        with as_nobody(), pytest.raises(PermissionError):
            memory.save(folder / "m")
        assert (folder / "m").read_bytes() == old
        assert [p.name for p in folder.iterdir()] == ["m"]
    finally:
        folder.chmod(0o755)
        shutil.rmtree(folder)


def test_a_new_file_has_the_usual_permissions_and_an_old_one_keeps_its_own(tmp_path: Path) -> None:
    memory = UniformMemory(5, **SMALL)
    (tmp_path / "plain").touch()
    memory.save(tmp_path / "m")
    assert mode(tmp_path / "m") == mode(tmp_path / "plain")
    (tmp_path / "m").chmod(0o640)
    memory.save(tmp_path / "m")
    assert mode(tmp_path / "m") == 0o640


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


FULL = """
import resource, signal, sys
from pathlib import Path
import numpy as np
from crystalrl import Transition, UniformMemory, load_memory
path = Path(sys.argv[1])
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # a write beyond the limit is then an error, as on a full disk
memory = UniformMemory(5_000, obs=(50,), action=2)
step = lambda k: Transition(np.full(50, k, "f4"), 0, float(k), np.full(50, k, "f4"), False)
memory.add(step(1))
memory.save(path)
old = path.read_bytes()
for k in range(4_000):
    memory.add(step(k))
before = memory.state_dict()
for limit in (0, 100, 4_096, 100_000, 1_000_000):
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    try:
        memory.save(path)
    except OSError as error:
        assert error.errno or "unchanged" in str(error), error
    else:
        raise SystemExit(f"saved within {limit} bytes")
    assert path.read_bytes() == old
    assert [p.name for p in path.parent.iterdir()] == [path.name], list(path.parent.iterdir())
    assert len(load_memory(path)) == 1
after = memory.state_dict()
assert all((before[name] == after[name]).all() for name in before)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
memory.save(path)
assert len(load_memory(path)) == 4_001
print("survived")
"""


def python(code: str, *arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=120, check=False, **options
    )


def test_on_a_full_disk_the_previous_file_survives_and_the_memory_is_unchanged(tmp_path: Path) -> None:
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[1] == resource.RLIM_INFINITY
    done = python(FULL, str(tmp_path / "m"))
    assert done.stdout == "survived\n", done.stderr


KILLED = """
import os, random, signal, sys, time
from pathlib import Path
import numpy as np
import torch
from crystalrl import Transition, UniformMemory, load_memory

torch.set_num_threads(1)
path, kills = Path(sys.argv[1]), int(sys.argv[2])
folder = path.parent
memory = UniformMemory(200, obs=(5_000,), action=2)
memory.save(path)


def save_for_ever(report):
    memory = load_memory(path)
    number = int(memory.time[0])
    while True:
        number += 1
        memory.add(Transition(np.full(5_000, number, "f4"), 0, float(number), np.full(5_000, number, "f4"), False))
        memory.save(path)
        os.write(report, number.to_bytes(8, "little"))


rng = random.Random(1)
number = interrupted = 0
for killed in range(1, kills + 1):
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        save_for_ever(write)
    os.close(write)
    first = os.read(read, 8)  # it is at work
    time.sleep(rng.uniform(0.0, 0.03))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    reported = [int.from_bytes(part, "little") for part in (first, *iter(lambda: os.read(read, 8), b""))]
    os.close(read)
    loaded = load_memory(path)
    loaded.check()
    number = int(loaded.time[0])
    assert number in (reported[-1], reported[-1] + 1), (number, reported)
    assert set(loaded.sample(200).reward.tolist()) <= set(range(max(1, number - 199), number + 1))
    left = [p for p in folder.iterdir() if p != path]
    assert len(left) <= 1, left  # of the last one; it has removed those before
    assert all(p.name.startswith(".") for p in left), left
    interrupted += len(left)
loaded.save(path)
assert list(folder.iterdir()) == [path]
print(number, interrupted)
"""


def test_a_file_survives_fifty_kills_during_save(tmp_path: Path) -> None:
    done = python(KILLED, str(tmp_path / "m"), "50")
    assert done.returncode == 0, done.stderr
    saves, interrupted = map(int, done.stdout.split())
    assert saves >= 50
    assert interrupted > 0


def test_the_header_can_be_read_without_this_library(tmp_path: Path) -> None:
    PrioritizedMemory(5, **SMALL, alpha=0.25).save(tmp_path / "m")
    data = (tmp_path / "m").read_bytes()
    length = int.from_bytes(data[:8], "little")
    metadata = json.loads(data[8 : 8 + length])["__metadata__"]
    header = json.loads(metadata["header"])
    assert header["kind"] == "PrioritizedMemory"
    assert header["params"]["alpha"] == 0.25
    assert header["structure"]["capacity"] == 5


def test_a_reader_next_to_a_saver_always_gets_a_whole_file(tmp_path: Path) -> None:
    path, stop = tmp_path / "file", threading.Event()
    numbers = [torch.full((20_000,), float(number)) for number in range(2)]

    def save() -> None:
        while not stop.is_set():
            for number, values in enumerate(numbers):
                checkpoint.write(path, {"number": number}, {"values": values})

    checkpoint.write(path, {"number": 0}, {"values": numbers[0]})
    saver = threading.Thread(target=save)
    saver.start()
    try:
        for _ in range(150):
            header, tensors = checkpoint.read(path)
            assert torch.equal(tensors["values"], numbers[header["number"]])
    finally:
        stop.set()
        saver.join()


def test_the_next_save_removes_what_a_killed_one_left_behind_and_nothing_else(tmp_path: Path) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    for name in (f".file.{ended.pid}.random.tmp", f".file.{os.getpid()}.random.tmp", f".other.{ended.pid}.random.tmp"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "new").touch()
    checkpoint.write(tmp_path / "file", {}, {"x": torch.zeros(10)})
    left = {f".file.{os.getpid()}.random.tmp", f".other.{ended.pid}.random.tmp", "file"}
    assert {path.name for path in tmp_path.iterdir()} == left
