"""Saving fails or is killed: what was there before survives, and nothing is left behind."""

from __future__ import annotations

import os
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

import pytest
import torch

from crystalrl import CheckpointError, UniformMemory, load_memory
from crystalrl.memory.storage import checkpoint
from tests.experience import SMALL, assert_same_state, feed


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


@pytest.mark.slow  # tests/chaos has ten kills in the fast suite
def test_a_file_survives_twenty_kills_during_save(tmp_path: Path) -> None:
    done = python(KILLED, str(tmp_path / "m"), "20")
    assert done.returncode == 0, done.stderr
    saves, interrupted = map(int, done.stdout.split())
    assert saves >= 20
    assert interrupted > 0


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
