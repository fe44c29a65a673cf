"""`crystalrl check-tasks`: try every task of a file, and show what was seen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from crystalrl.cli.progress import tracked
from crystalrl.study.task_files import TASKS, read_tasks, sequence_from, tasks_from
from crystalrl.suites.probe import Findings, Limits, probe
from crystalrl.suites.sizes import Sizes, fitting
from crystalrl.suites.tasks import Task, named

COLUMNS = ("task", "obs", "actions", "steps", "return", "score", "repeats", "ms")
NOTES = """steps, return, score: of episodes with random actions; ms: per step.
repeats: whether the same seed and actions give the same observations and rewards.
If not, an interrupted run cannot continue exactly."""
PAUSE = 2.0
"""Seconds until a line says how far the check is, if the output is not a terminal."""


def check_tasks(path: Path, console: Console, limits: Limits | None = None) -> bool:
    """Try the tasks of a file and print a table; whether nothing is wrong."""
    values = read_tasks(path)
    tasks = tasks_from(values[TASKS])
    names = [named(task, number) for number, task in enumerate(tasks, 1)]
    found = [probe(task, limits) for task in tracked(tasks, "tasks", console, PAUSE)]
    table = Table(*COLUMNS)
    for name, task, one in zip(names, tasks, found, strict=True):
        table.add_row(*(escape(word) for word in (name, *_words(task, one))))
    console.print(table)
    wrong = [f"tasks.{name}.{what}" for name, one in zip(names, found, strict=True) for what in one.problems]
    sizes = {name: one.sizes for name, one in zip(names, found, strict=True) if one.sizes is not None}
    wrong = wrong or _together(values, sizes, console)
    for what in wrong:
        console.print(f"[red]wrong[/red] {escape(what)}", highlight=False, soft_wrap=True)
    return not wrong


def _together(values: Mapping[str, Any], sizes: dict[str, Sizes], console: Console) -> list[str]:
    """What is wrong with the tasks together; if nothing is, print what an agent will see."""
    try:
        made, all_of = sequence_from(values), fitting(sizes)
    except ValueError as error:
        return [str(error)]
    shown = "hidden" if made.hidden else "visible"
    size = f"observations {_shape(all_of.obs)}, actions {_actions(all_of)}"
    console.print(NOTES, highlight=False)
    console.print(f"{len(made.ids)} stages, {len(set(made.ids))} tasks, id {shown}; {size}.", highlight=False)
    return []


def _words(task: Task, found: Findings) -> list[str]:
    if found.sizes is None:
        return [""] * (len(COLUMNS) - 1)
    lengths = [episode.steps for episode in found.episodes]
    totals = [episode.total for episode in found.episodes]
    repeats = "" if found.repeats is None else "yes" if found.repeats else "no"
    speed = f"{1000 * found.seconds:.2f}" if found.seconds == found.seconds else ""
    seen = [_shape(found.sizes.obs), _actions(found.sizes)]
    return [*seen, _range(lengths), _range(totals), _range(_scores(task, found), ".2f"), repeats, speed]


def _scores(task: Task, found: Findings) -> list[float]:
    if task.success:
        return [float(episode.success) for episode in found.episodes]
    return [(episode.total - task.low) / (task.high - task.low) for episode in found.episodes]


def _range(values: Sequence[float], form: str = ".4g") -> str:
    """The smallest and the largest, or the only value."""
    return " … ".join(dict.fromkeys(f"{end:{form}}" for end in (min(values), max(values)))) if values else ""


def _shape(shape: tuple[int, ...]) -> str:
    return " × ".join(map(str, shape))


def _actions(sizes: Sizes) -> str:
    return f"{sizes.action}" if isinstance(sizes.action, int) else f"box {_shape(sizes.action)}"
