"""What the commands print: forecasts, trials."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path

from rich.console import Console
from rich.table import Table as RichTable

from crystalrl.cli.progress import tracked
from crystalrl.study.definition import Table
from crystalrl.study.execution import check_device, prepare
from crystalrl.study.forecast import Forecast, forecast
from crystalrl.study.plan import Group, plan
from crystalrl.study.speeds import estimated
from crystalrl.study.store import Store
from crystalrl.study.tuning import Search, Trials, best, tune

WEEK = 168
"""Hours of a week."""


def show_forecast(tables: Mapping[Path, Table], device: str, console: Console, measure: bool = False) -> None:
    """Print the cost of every run that is not stored yet, from stored speeds or, where there are none, measured
    ones."""
    check_device(device)
    prepare(device)
    planned = tracked(list(tables.items()), "Planning", console)
    groups = [(folder, group) for folder, table in planned for group in _unfinished(folder, table)]
    costs = [(folder, _cost(group, device, measure)) for folder, group in tracked(groups, "Measuring", console)]
    forecasts = [each for _, each in costs]
    console.print(_forecast_table(forecasts))
    if any(each.at_least for each in forecasts):
        console.print(">: a lower bound, because evaluations were stopped before their end.", highlight=False)
    for source in dict.fromkeys(each.source for each in forecasts if each.source):
        console.print(f"Stored speed of {source}.", highlight=False, soft_wrap=True)
    cells = len({(folder, cell) for folder, each in costs for cell in each.cells})
    console.print(f"To do: {cells} cells, {_total(forecasts, device)}", highlight=False, soft_wrap=True)


def _total(forecasts: Sequence[Forecast], device: str) -> str:
    """Steps, hours and GPUs of all runs."""
    steps, hours = sum(each.steps for each in forecasts), sum(each.hours for each in forecasts)
    gpu = sum(each.hours for each in forecasts if each.source or device.startswith("cuda"))
    longer = "> " if any(each.at_least for each in forecasts) else ""
    where = "the machine of the stored speeds" if all(each.source for each in forecasts) else device
    week = f" GPUs needed to finish within a week: {math.ceil(gpu / WEEK)}." if gpu else ""
    spent = f"{longer}{hours:.3f} hours on {where}, {gpu:.3f} GPU-hours"
    return f"{steps:,} environment steps, {spent}, one run at a time.{week}"


def _cost(group: Group, device: str, measure: bool) -> Forecast:
    stored = None if measure else estimated(group)
    return forecast(group, device) if stored is None else stored


def _unfinished(folder: Path, table: Table) -> list[Group]:
    """The runs of a table that are not stored yet."""
    stored = Store(folder, table.to_toml()) if (folder / "spec.toml").is_file() else None
    return [group for group in plan(table.runs()) if stored is None or not stored.has(group.key)]


def _forecast_table(forecasts: Sequence[Forecast]) -> RichTable:
    lines = RichTable("run", "runs", "cells", "lanes", "environment steps", "steps/s", "hours")
    for cells, same in groupby(forecasts, lambda each: each.cells):
        runs = list(same)
        name, steps, hours = cells[0] + (" …" if len(cells) > 1 else ""), sum(r.steps for r in runs), _hours(runs)
        counts = (f"{len(runs)}", f"{len(cells)}", f"{sum(r.lanes for r in runs)}", f"{steps:,}")
        lines.add_row(name, *counts, f"{sum(r.speed for r in runs) / len(runs):,.0f}", hours)
    return lines


def _hours(runs: Sequence[Forecast]) -> str:
    return f"{'> ' if any(run.at_least for run in runs) else ''}{sum(run.hours for run in runs):.3f}"


def show_tuning(search: Search, folder: Path, device: str, console: Console) -> None:
    """Run the trials that are missing and print each, then the best of every row."""
    check_device(device)
    prepare(device)
    for trial in tune(search, folder, device):
        settings = ", ".join(f"{name} = {value}" for name, value in trial.settings.items())
        progress = f"{trial.row} {trial.number + 1}/{search.trials}"
        console.print(f"{progress}: {trial.value:.3f} with {settings}", highlight=False)
    trials = Trials(folder, search)
    console.print(_trial_table(search, trials))
    console.print(f"All trials: {trials.path}", highlight=False)


def _trial_table(search: Search, trials: Trials) -> RichTable:
    lines = RichTable("", "trials", f"{search.table.objective}, tuning seeds", "best settings")
    for name in search.table.rows:
        first = best(trials.of(name))
        settings = "\n".join(f"{setting} = {value}" for setting, value in first.settings.items())
        lines.add_row(name, f"{len(trials.of(name))}", f"{first.value:.3f}", settings)
    return lines
