"""Ray workers that are killed while they train: the study stores what one process stores."""

from __future__ import annotations

import os
import random
import shutil
import signal
from dataclasses import dataclass
from pathlib import Path

from crystalrl.study.definition import Table
from crystalrl.study.execution import execute, execute_ray
from crystalrl.study.plan import plan
from crystalrl.study.spec import RunSpec
from crystalrl.study.store import Store
from tests.chaos.campaign import Attack, Verdict, packages
from tests.chaos.killed_studies import tables

SMALL = {"suite": "nav-2", "steps": 1_600, "capacity": 300, "batch": 32, "episodes": 4, "points": 2, "seeds": (0, 1)}
KILLS = 2
"""Kills per study."""


@dataclass(frozen=True)
class Cluster:
    """What is stored without Ray."""

    folder: Path
    table: Table
    tables: dict[str, bytes]


def prepare(folder: Path) -> Cluster:
    import ray

    rows = {
        "anchored": RunSpec(memory="crystal", preset="anchored", **SMALL),
        "PER": RunSpec(memory="prioritized", **SMALL),
    }
    table = Table("", rows)
    list(execute(plan(table.runs()), Store(folder / "whole", table.to_toml())))
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    return Cluster(folder, table, tables(folder / "whole"))


def attempt(cluster: Cluster, number: int, size: int, rng: random.Random) -> Verdict:
    out, groups, killed = cluster.folder / f"run-{number}", plan(cluster.table.runs()), 0
    try:
        for _ in execute_ray(groups, Store(out, cluster.table.to_toml()), minutes=0.0005):
            if killed < size and rng.random() < 0.5 and (found := workers()):
                os.kill(rng.choice(found), signal.SIGKILL)
                killed += 1
        assert tables(out) == cluster.tables, "other tables"
        assert not any((out / "checkpoints").iterdir()), "a checkpoint was left behind"
    except Exception as error:
        return Verdict(broken=(f"{error!r}"[:500],) * max(killed, 1))
    finally:
        shutil.rmtree(out, ignore_errors=True)
    return Verdict(held=killed, notes={"studies": 1})


def workers() -> list[int]:
    """Ray processes of this process's cluster that run one of its tasks now."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if (
                entry.name.isdigit()
                and b"ray::_remote_run" in (entry / "cmdline").read_bytes()
                and ours(int(entry.name))
            ):
                found.append(int(entry.name))
        except OSError:
            continue  # it has just ended
    return found


def ours(process: int) -> bool:
    """Whether a process descends from this one."""
    while process > 1 and process != os.getpid():
        process = int((Path("/proc") / str(process) / "stat").read_text().rpartition(")")[2].split()[1])
    return process == os.getpid()


ATTACKS = (
    Attack(
        "ray-workers",
        "Ray worker killed while it trains",
        "kills",
        40,
        1,
        attempt,
        prepare,
        KILLS,
        timeout=600.0,
        smoke=False,
        lacks=packages("ray"),
    ),
)
