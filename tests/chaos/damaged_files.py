"""Files that are damaged, or changed by hand with the checksum repaired: refused by name, or loaded into a valid state.

Nothing may crash, and no attempt may take more than twice the memory that loading the undamaged file takes.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

from crystalrl import load_memory
from crystalrl.memory import ReplayMemory
from crystalrl.memory.storage.checkpoint import CheckpointError
from tests.chaos.campaign import Attack, Verdict
from tests.chaos.files import damaged, resealed, tampered
from tests.chaos.small import KINDS, fill, small, use
from tests.experience import assert_same_state

ALLOWANCE = 8 << 20
"""Bytes by which two identical loads may differ, as the allocator keeps or returns what was freed."""


@dataclass
class Subject:
    """A memory, its file, and the bytes that loading the file takes."""

    memory: ReplayMemory
    path: Path
    content: bytes
    honest: int


def prepare(folder: Path) -> list[Subject]:
    torch.set_num_threads(1)
    subjects = []
    for number, kind in enumerate(KINDS):
        memory = small(kind, 1_000, n_step=3 if kind == "uniform" else 1)
        fill(memory, 1_200, number)
        use(memory)
        path = folder / type(memory).__name__
        memory.save(path)
        subjects.append(Subject(memory, path, path.read_bytes(), 0))
        assert resealed(subjects[-1].content) == subjects[-1].content
        load_memory(path)  # the first load also loads code
        reset_peak()
        before = status("VmRSS")
        load_memory(path)
        subjects[-1].honest = max(status("VmHWM") - before, len(subjects[-1].content))
    return subjects


def refused(load: Any) -> tuple[bool, Any]:
    """Whether loading was refused as promised, and what was loaded if not."""
    try:
        return False, load()
    except CheckpointError:
        return True, None


def attempt(change: Any, subjects: list[Subject], number: int, size: int, rng: random.Random) -> Verdict:
    subject = subjects[number % len(subjects)]
    what, data = change(subject.content, rng)
    subject.path.write_bytes(data)
    before, live = subject.memory.state_dict(), status("VmRSS")
    reset_peak()
    try:
        gone, loaded = refused(lambda: load_memory(subject.path))
        taken = status("VmHWM") - live
        assert taken <= 2 * subject.honest + ALLOWANCE, f"took {taken:,} bytes, the undamaged file {subject.honest:,}"
        also, _ = refused(lambda: subject.memory.load(subject.path))
        if also:
            assert_same_state(before, subject.memory.state_dict())
        if gone and also:
            return Verdict(refused=1)
        assert what, "a damaged file was loaded"
        for memory in ([] if gone else [loaded]) + ([] if also else [subject.memory]):
            use(memory)
        return Verdict(held=1)
    except Exception as error:
        return Verdict(broken=(f"{subject.path.name}, {what}: {error!r}"[:400],))
    finally:
        subject.path.write_bytes(subject.content)
        subject.memory.load(subject.path)


def reset_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5")


def status(name: str) -> int:
    """Bytes of this process: VmRSS now, VmHWM at its peak."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(name))
    return 1024 * int(line.split()[1])


def only_damaged(content: bytes, rng: random.Random) -> tuple[str, bytes]:
    return "", damaged(content, rng)


ATTACKS = (
    Attack(
        "damaged-files", "Damaged file: bits flipped, cut off, blocks exchanged", "files", 2_000, 20,
        partial(attempt, only_damaged), prepare,
    ),
    Attack(
        "resealed-files", "File changed by hand, checksum repaired", "files", 500, 20,
        partial(attempt, tampered), prepare,
    ),
)  # fmt: skip
