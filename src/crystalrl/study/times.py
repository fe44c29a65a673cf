"""How long the runs of a study took: `times.json` in the results folder.

A run trains the learners of one or more rows together. The seconds of a run that was resumed are those since its last
start.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from crystalrl.study.plan import Group
from crystalrl.study.table_files import write_whole

FILE = "times.json"


@dataclass(frozen=True)
class Time:
    """Seconds in which some learners were trained together."""

    seconds: float
    learners: int


def note_time(folder: Path, group: Group, seconds: float) -> None:
    """Add the time of a run to the file."""
    rows = sorted({lane.method for lane in group.lanes})
    known = _stored(folder) | {group.key: {"rows": rows, **asdict(Time(seconds, len(group.lanes)))}}
    write_whole(folder / FILE, (json.dumps(known, indent=1, ensure_ascii=False) + "\n").encode())


def times(folder: Path) -> dict[str, Time]:
    """Row → the time of all runs with learners of the row; empty if no times were noted."""
    found: dict[str, Time] = {}
    for run in _stored(folder).values():
        for row in run["rows"]:
            before = found.get(row, Time(0.0, 0))
            found[row] = Time(before.seconds + run["seconds"], before.learners + run["learners"])
    return found


def _stored(folder: Path) -> dict[str, dict[str, Any]]:
    path = folder / FILE
    stored: dict[str, dict[str, Any]] = json.loads(path.read_text()) if path.is_file() else {}
    return stored
