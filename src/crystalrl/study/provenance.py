"""Where, when and how long each run was computed: one small file per run, `runs/KEY.json`, in the folder of results.

It holds what must not change the tables: an interrupted run stores the same tables as an uninterrupted one, but another
time. Results that were stored before these files existed have none.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from crystalrl.study.plan import Group
from crystalrl.study.table_files import write_whole
from crystalrl.study.versions import versions

FIELDS = ("key", "cell", "method", "seed", "learners", "steps", "seconds", "finished", "device", "machine", "commit")
"""Of every learner: its run, the learners in that run, environment steps per learner, wall-clock seconds of the run."""


def write_run(folder: Path, group: Group, seconds: float, device: str) -> None:
    """Note a finished run."""
    noted = {
        "lanes": [[lane.cell, lane.method, lane.seed] for lane in group.lanes],
        "steps": group.steps,
        "seconds": round(seconds, 3),
        "finished": datetime.now(UTC).strftime("%Y-%m-%d"),
        "machine": machine(),
        "commit": commit(),
        **versions(device),
    }
    place = folder / "runs"
    place.mkdir(exist_ok=True)
    write_whole(place / f"{group.key}.json", (json.dumps(noted, indent=1, ensure_ascii=False) + "\n").encode())


def read_runs(folder: Path) -> list[dict[str, Any]]:
    """A line with `FIELDS` for every learner of the noted runs; files that cannot be read are left out."""
    lines: list[dict[str, Any]] = []
    for path in sorted((folder / "runs").glob("*.json")):
        noted = _noted(path)
        shared = {name: noted.get(name, "") for name in FIELDS[5:]}
        lanes = noted.get("lanes", [])
        head = {"key": path.stem, "learners": len(lanes)}
        lines += [{**head, "cell": cell, "method": method, "seed": seed, **shared} for cell, method, seed in lanes]
    return [{name: line[name] for name in FIELDS} for line in lines]


@dataclass(frozen=True)
class Time:
    """Seconds in which some learners were trained together."""

    seconds: float
    learners: int


def times(folder: Path) -> dict[str, Time]:
    """Row → the time of all runs with learners of the row; empty if no runs were noted."""
    found: dict[str, Time] = {}
    lines = [line for line in read_runs(folder) if line["seconds"] != ""]
    for row, _, seconds, learners in {(r["method"], r["key"], r["seconds"], r["learners"]) for r in lines}:
        before = found.get(row, Time(0.0, 0))
        found[row] = Time(before.seconds + seconds, before.learners + learners)
    return found


def _noted(path: Path) -> Mapping[str, Any]:
    """What was noted of a run; nothing if the file cannot be read or holds something else."""
    try:
        noted = json.loads(path.read_text())
        numbers = [noted.get("steps", 0), noted.get("seconds", 0), *(seed for _, _, seed in noted["lanes"])]
    except (ValueError, OSError, KeyError, TypeError, AttributeError):
        return {}
    return noted if all(isinstance(number, (int, float)) for number in numbers) else {}


def machine() -> str:
    """The kind of machine: system, architecture and cores."""
    return f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores"


@cache
def commit() -> str:
    """Commit of the source that runs, if it is in a git working tree, with a + if it was changed; otherwise empty."""
    here = str(Path(__file__).parent)
    try:
        found = subprocess.run(
            ["git", "-C", here, "describe", "--always", "--abbrev=12", "--match=", "--dirty=+"],
            capture_output=True, text=True, timeout=10, check=True,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return ""
    return found.stdout.strip()
