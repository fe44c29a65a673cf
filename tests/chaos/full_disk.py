"""Disks that are full: an error, the previous file unchanged, nothing left behind, and the study goes on later.

A limit on the size of files acts as a full disk. One attempt in ten is a command whose output goes to /dev/full. Where
user namespaces are allowed, another one in ten is made on a small file system in memory that is really full.
"""

from __future__ import annotations

import contextlib
import errno
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path

from crystalrl import load_memory
from crystalrl.memory import ReplayMemory
from tests.chaos import killed_studies
from tests.chaos.campaign import Attack, Verdict
from tests.chaos.killed_studies import Study, tables
from tests.chaos.small import KINDS, live, same, small


@dataclass
class Disk:
    """What is saved on it."""

    folder: Path
    memories: dict[str, ReplayMemory]

    @cached_property
    def study(self) -> Study:
        return killed_studies.prepare("nav-2", 160, self.folder)


def prepare(folder: Path) -> Disk:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # a write beyond the limit is then an error, as on a full disk
    memories = {kind: small(kind, 200) for kind in KINDS}
    for memory in memories.values():
        while live(memory) < 150:
            pass
    return Disk(folder, memories)


@contextlib.contextmanager
def limited(nbytes: int) -> Iterator[None]:
    """Files of this process cannot grow beyond a size."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (nbytes, resource.RLIM_INFINITY))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


def attempt(disk: Disk, number: int, size: int, rng: random.Random) -> Verdict:
    ways = (save, save, save, save, run)
    way = ways[number % len(ways)]
    if number % 10 == 7 and find_spec("tyro"):  # which the command line needs
        way = command
    elif number % 10 == 9 and namespaces():
        way = really_full
    try:
        way(disk, number, rng)
    except Exception as error:
        return Verdict(broken=(f"{way.__name__}: {error!r}"[:500],))
    return Verdict(held=1)


def save(disk: Disk, number: int, rng: random.Random) -> None:
    """A save that fails leaves the previous file, no others, and the memory as it was."""
    memory, folder = disk.memories[KINDS[number % len(KINDS)]], disk.folder / f"save-{number}"
    folder.mkdir()
    path = folder / "memory"
    memory.save(path)
    old, copy = path.read_bytes(), load_memory(path)
    try:
        with limited(rng.randrange(len(old) - 1)):
            memory.save(path)
    except OSError:
        assert path.read_bytes() == old
        assert [file.name for file in folder.iterdir()] == ["memory"]
        same(copy, load_memory(path))
    else:
        raise AssertionError("saved beyond the limit")
    finally:
        shutil.rmtree(folder)


def run(disk: Disk, number: int, rng: random.Random) -> None:
    """A study that ends with an error goes on when there is room again."""
    out, study = disk.folder / f"run-{number}", disk.study
    with limited(rng.randrange(100_000)):
        os.waitpid(killed_studies.start(study.table, out), 0)
    status = os.waitpid(killed_studies.start(study.table, out), 0)[1]
    assert status == 0, f"could not be resumed: status {status}"
    assert tables(out) == study.tables, "other tables"
    shutil.rmtree(out)


def command(disk: Disk, number: int, rng: random.Random) -> None:
    """A command whose output cannot be printed ends with one message and an exit status."""
    from crystalrl.cli.errors import INVALID

    words = rng.choice([["list"], ["--help"], ["run", "--help"]])
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "crystalrl", *words], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert (done.returncode, done.stderr) == (
        INVALID,
        f"crystalrl: {OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))}\n",
    )


FULL = """
import os, sys
from pathlib import Path
from crystalrl import load_memory
from tests.chaos.small import live, same, small
folder, kind = Path(sys.argv[1]), sys.argv[2]
memory = small(kind, 200)
live(memory)
memory.save(folder / "memory")
old = (folder / "memory").read_bytes()
with (folder / "other").open("wb", buffering=0) as other:
    try:
        while other.write(bytes(4096)):
            pass
    except OSError:
        pass
for _ in range(100):
    live(memory)
try:
    memory.save(folder / "memory")
except OSError:
    assert (folder / "memory").read_bytes() == old
    assert sorted(file.name for file in folder.iterdir()) == ["memory", "other"], list(folder.iterdir())
    (folder / "other").unlink()
    memory.save(folder / "memory")
    load_memory(folder / "memory").check()
    print("held")
"""


def really_full(disk: Disk, number: int, rng: random.Random) -> None:
    """A file system of one megabyte without a free block."""
    mounted = f'mount -t tmpfs -o size=1m none "{disk.folder}" && exec "$@"'
    program = [sys.executable, "-c", FULL, str(disk.folder), KINDS[number % len(KINDS)]]
    done = subprocess.run(
        ["unshare", "-Urm", "sh", "-c", mounted, "sh", *program], capture_output=True, text=True, check=False
    )
    assert done.stdout == "held\n", done.stderr[-400:]


def namespaces() -> bool:
    """Whether this user may mount a file system in a namespace of its own."""
    return (
        shutil.which("unshare") is not None
        and not subprocess.run(["unshare", "-Urm", "true"], capture_output=True, check=False).returncode
    )


ATTACKS = (Attack("full-disk", "Disk full while a memory or a study is saved", "saves", 300, 5, attempt, prepare),)
