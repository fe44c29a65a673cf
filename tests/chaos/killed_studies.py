"""Studies that are killed again and again and resumed: the stored tables are those of an uninterrupted run.

This process imports the library once and forks a child per start, so that a start takes little time. A unit is one
results folder: several kills at random times, then a run to the end and the comparison.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import sys
import time
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import gymnasium  # noqa: F401 — loaded here, the children need not
import numpy as np
import pyarrow.parquet  # noqa: F401
import torch

from crystalrl import CrystalMemory, CrystalParams, Transition
from crystalrl.study.definition import Table, table_from
from crystalrl.study.execution import Execution
from crystalrl.study.plan import plan
from crystalrl.study.store import Store
from tests.chaos.campaign import Attack, Verdict

KILLS = 10
"""Kills per results folder."""
DEADLINE = 60.0
"""Seconds after which a child, or a worker process whose parent is gone, should have ended."""
DEFAULTS = """
title = "killed"
[defaults]
suite = "{suite}"
steps = {steps}
capacity = 300
batch = 32
episodes = 4
points = 2
seeds = "0:2"
agent_params.width = 16
[rows.anchored]
memory = "crystal"
preset = "anchored"
[rows.prioritized]
memory = "prioritized"
"""


@dataclass(frozen=True)
class Study:
    """A study and what it stores if nothing interrupts it."""

    folder: Path
    table: Table
    tables: dict[str, bytes]
    seconds: float


def prepare(suite: str, steps: int, folder: Path) -> Study:
    """Run the study once to the end."""
    torch.set_num_threads(1)
    table = table_from(tomllib.loads(DEFAULTS.format(suite=suite, steps=steps)))
    load_kernels()
    begun = time.monotonic()
    status = os.waitpid(start(table, folder / "whole"), 0)[1]
    assert status == 0, f"the uninterrupted study ended with {status}"
    return Study(folder, table, tables(folder / "whole"), time.monotonic() - begun)


def load_kernels() -> None:
    """Load compiled code here, so that the children need not."""
    memory = CrystalMemory(300, obs=(2,), action=2, lanes=2, params=CrystalParams.anchored())
    zeros = np.zeros((2, 1, 2), np.float32)
    for _ in range(20):
        memory.add(Transition(zeros, np.zeros((2, 1), np.int64), zeros[..., 0], zeros, zeros[..., 0] > 0))
    memory.update(memory.sample(4).index, torch.ones(2, 4))
    memory.consolidate(lambda batch: batch.reward)


def attempt(study: Study, number: int, size: int, rng: random.Random) -> Verdict:
    """Kills at random times of one folder's run, then the comparison."""
    out = study.folder / f"run-{number}"
    kills = unfinished = 0
    try:
        for _ in range(size):
            child = start(study.table, out)
            time.sleep(rng.uniform(0, study.seconds / 2))
            os.kill(child, signal.SIGKILL)
            if os.waitpid(child, 0)[1] != signal.SIGKILL:
                break  # it had ended before
            kills += 1
            unfinished += any(out.glob("checkpoints/*.safetensors"))
            wait_for_workers(child)
        return judged(study, out, kills, unfinished)
    finally:
        shutil.rmtree(out, ignore_errors=True)


def judged(study: Study, out: Path, kills: int, unfinished: int) -> Verdict:
    """Run to the end and compare."""
    child = start(study.table, out)
    status = os.waitpid(child, 0)[1]
    notes = {"with a checkpoint to go on from": unfinished, "results folders": 1}
    if status != 0:
        return Verdict(broken=(f"could not be resumed: status {status}",) * max(kills, 1), notes=notes)
    if tables(out) != study.tables:
        return Verdict(broken=(f"{out.name}: other tables",) * max(kills, 1), notes=notes)
    if left := [path.name for path in (out / "checkpoints").iterdir()]:
        return Verdict(broken=(f"{out.name}: left behind {left}",) * max(kills, 1), notes=notes)
    return Verdict(held=kills, notes=notes)


def start(table: Table, out: Path) -> int:
    """A child that runs the study, or goes on with it, in a session of its own."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        os.setsid()
        for _ in Execution("cpu", checkpoint_minutes=0.0005).events(plan(table.runs()), Store(out, table.to_toml())):
            pass
        code = 0
    except BaseException as error:
        print(repr(error), file=sys.stderr, flush=True)
    finally:
        os._exit(code)


def tables(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.glob("*.parquet/part-*"))}


def wait_for_workers(session: int) -> None:
    """Worker processes end when their parent is gone."""
    until = time.monotonic() + DEADLINE
    while members(session):
        assert time.monotonic() < until, f"processes left behind: {members(session)}"
        time.sleep(0.01)


def members(session: int) -> list[int]:
    """The processes of a session."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit():
                state, _, _, theirs = (entry / "stat").read_text().rpartition(")")[2].split()[:4]
                if int(theirs) == session and state != "Z":
                    found.append(int(entry.name))
        except OSError:
            continue  # it has just ended
    return found


def study(name: str, title: str, suite: str, steps: int, full: int, workers: int = 0, smoke: bool = True) -> Attack:
    prepared: Callable[[Path], Study] = partial(prepare, suite, steps)
    environment = {"CRYSTALRL_WORKERS": str(workers)}
    return Attack(
        f"killed-studies-{name}", title, "kills", full, 2, attempt, prepared, KILLS, environment=environment,
        smoke=smoke,
    )  # fmt: skip


ATTACKS = (
    study("tensors", "Study killed and resumed (environments as tensors)", "nav-2", 400, 400, smoke=False),
    study("gymnasium", "Study killed and resumed (Gymnasium, one process)", "cartpole-2", 400, 300, smoke=False),
    study("workers", "Study killed and resumed (Gymnasium, worker processes)", "cartpole-2", 400, 300, workers=2),
)
