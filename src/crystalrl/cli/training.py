"""Commands that train: progress, results, what they leave behind, and the command that continues."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from crystalrl.cli.errors import RunError
from crystalrl.cli.pages import show_report
from crystalrl.cli.progress import ProgressDisplay
from crystalrl.study.definition import Table
from crystalrl.study.execution import Execution
from crystalrl.study.plan import Group, plan
from crystalrl.study.store import Store


def run_tables(tables: Mapping[Path, Table], execution: Execution, console: Console) -> None:
    """Train all tables and report each. All stores are created first, so that `resume` finds every table."""
    plans = {folder: plan(table.runs()) for folder, table in tables.items()}
    again = resume_command(list(tables), execution)
    with continued_by(again), _stores(tables) as stores:
        for folder, groups in plans.items():
            with ProgressDisplay(groups, console) as display:
                _train(groups, stores[folder], execution, display, again)
            if any(stores[folder].has(group.key) for group in groups):
                show_report([folder], console)
    _end_if_failed(stores, console)


@contextmanager
def continued_by(command: str) -> Iterator[None]:
    """After Ctrl-C, say which command continues."""
    try:
        yield
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"Results so far are kept: `{command}` continues") from None


@contextmanager
def _stores(tables: Mapping[Path, Table]) -> Iterator[dict[Path, Store]]:
    """The stores of all tables. After an error, those in which nothing was trained are removed, so that a corrected
    command may use their folders."""
    made: dict[Path, Store] = {}
    try:
        for folder, table in tables.items():
            made[folder] = Store(folder, table.to_toml())
        yield made
    except RunError:
        raise
    except Exception:
        for store in made.values():
            store.remove_if_new()
        raise


def _end_if_failed(stores: Mapping[Path, Store], console: Console) -> None:
    failed = [one["what"] for store in stores.values() for one in store.failures()]
    for what in failed:
        console.print(f"[red]failed[/red] {escape(what)}", highlight=False, soft_wrap=True)
    if failed:
        raise SystemExit(1)


def _train(groups: Sequence[Group], store: Store, execution: Execution, display: ProgressDisplay, again: str) -> None:
    """Train what is not stored yet. An error before the first event is one of the input, any later one of the run."""
    begun = False
    try:
        for number, event in execution.events(groups, store):
            begun = True
            display.show(number, event)
    except Exception as error:
        if not begun:
            raise
        what = f"{type(error).__name__}: {error}"
        kept = f"what is stored is kept, and `{again}` continues (--debug shows where)"
        raise RunError(f"run failed: {what}; {kept}") from error


def resume_command(folders: Sequence[Path], execution: Execution) -> str:
    """The command line that continues training in these folders, in the same way."""
    words = ["crystalrl", "resume", os.path.commonpath(folders)]
    for option in fields(execution):
        value = getattr(execution, option.name)
        if value != option.default:
            words += [f"--{option.name.replace('_', '-')}", str(value)]
    return shlex.join(words)
