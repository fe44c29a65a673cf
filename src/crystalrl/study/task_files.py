"""User-defined tasks in TOML: a file of tasks, or a study file.

hidden = false                  # whether the task id is hidden from the agent
[[tasks]]
name = "cart"
make = "CartPole-v1"            # or module:function
low = 20.0                      # the score is (return − low) / (high − low)
high = 500.0
[[tasks]]
make = "CartPole-v1"
physics = { length = 0.8 }
random = 20.0                   # the same numbers under the names of human-normalised scores
human = 500.0
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from crystalrl.study.spec import read_toml, unknown
from crystalrl.suites.tasks import Sequence, Task

TASKS, HIDDEN = "tasks", "hidden"
SAME = {"random": "low", "human": "high"}
"""Other names of fields."""


def tasks_from(values: object) -> list[Task]:
    """The tasks of a list of TOML tables, not yet checked."""
    if not isinstance(values, list) or not all(isinstance(one, Mapping) for one in values):
        raise ValueError(f"tasks: wanted tables [[tasks]], got {values!r}")
    return [_task(given, number) for number, given in enumerate(values, 1)]


def sequence_from(values: Mapping[str, Any]) -> Sequence:
    """The sequence of TOML values `tasks` and `hidden`."""
    return Sequence(tuple(tasks_from(values[TASKS])), values.get(HIDDEN, False))


def read_tasks(path: Path) -> Mapping[str, Any]:
    """The values `tasks` and `hidden` of a file, which may hold a study as well."""
    values = read_toml(path)
    if TASKS not in values:
        raise ValueError(f"{path}: wanted [[tasks]], got {', '.join(values) or 'an empty file'}")
    for name in set(values) - {TASKS, HIDDEN} if "rows" not in values and "tables" not in values else ():
        raise ValueError(f"{path}: {unknown('field', name, {TASKS, HIDDEN})}")
    return {name: values[name] for name in (TASKS, HIDDEN) if name in values}


def load_tasks(path: Path) -> Sequence:
    """The sequence of a file."""
    return sequence_from(read_tasks(path))


def _task(given: Mapping[str, Any], number: int) -> Task:
    known, place = {f.name for f in fields(Task)}, f"tasks.{given.get('name', number)}"
    values = {}
    for name, value in given.items():
        own = SAME.get(name, name)
        if own not in known:
            raise ValueError(unknown(f"{place}.{name}", name, known | set(SAME)))
        if own in values:
            raise ValueError(f"{place}.{name}: wanted {own} or {name}, got both")
        values[own] = value
    if isinstance(values.get("wrappers"), list):
        values["wrappers"] = tuple(values["wrappers"])
    if isinstance(values.get("id"), int):
        values["id"] = str(values["id"])
    return Task(**values)
