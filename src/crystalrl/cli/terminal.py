"""What the commands print: reports, forecasts, trials."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table as RichTable

from crystalrl.cli.progress import tracked
from crystalrl.report import html
from crystalrl.report.figures import write_figure
from crystalrl.report.terminal import print_results
from crystalrl.study.analysis import load_results
from crystalrl.study.definition import Table
from crystalrl.study.execution import check_device, prepare
from crystalrl.study.forecast import Forecast, forecast
from crystalrl.study.plan import Group, plan
from crystalrl.study.store import Store, as_parquet, scored_folders
from crystalrl.study.tuning import Search, Trials, best, tune


def show_report(folder: Path, console: Console) -> None:
    """Print the tables of every results folder, and write its page."""
    for inner in scored_folders(folder):
        as_parquet(inner)
        print_results(load_results(inner), console)
        console.print(f"Full report: {html.write_report(inner)}", highlight=False)


def draw_figure(folder: Path, path: Path, console: Console) -> None:
    """Draw the average performance of all rows of one results folder."""
    console.print(f"Figure: {write_figure(load_results(folder), path)}", highlight=False)


def show_forecast(tables: Mapping[Path, Table], device: str, console: Console) -> None:
    """Measure every run that is not stored yet, and print its cost."""
    check_device(device)
    prepare(device)
    groups = [group for folder, table in tables.items() for group in _unfinished(folder, table)]
    forecasts = [forecast(group, device) for group in tracked(groups, "Measuring", console)]
    console.print(_forecast_table(forecasts))
    longer = "> " if any(each.at_least for each in forecasts) else ""
    if longer:
        console.print(">: a lower bound, because evaluations were stopped before their end.", highlight=False)
    cells, steps = sum(len(each.cells) for each in forecasts), sum(each.steps for each in forecasts)
    hours = sum(each.hours for each in forecasts)
    gpu = hours if device.startswith("cuda") else 0.0
    total = f"{cells} cells, {steps:,} environment steps, {longer}{hours:.3f} hours on {device}, {gpu:.3f} GPU-hours"
    console.print(f"To do: {total}, one run at a time.", highlight=False, soft_wrap=True)


def _unfinished(folder: Path, table: Table) -> list[Group]:
    """The runs of a table that are not stored yet."""
    stored = Store(folder, table.to_toml()) if (folder / "spec.toml").is_file() else None
    return [group for group in plan(table.runs()) if stored is None or not stored.has(group.key)]


def _forecast_table(forecasts: Sequence[Forecast]) -> RichTable:
    lines = RichTable("run", "cells", "lanes", "environment steps", "steps/s", "hours")
    for each in forecasts:
        name = each.cells[0] + (" …" if len(each.cells) > 1 else "")
        counts = (f"{len(each.cells)}", f"{each.lanes}", f"{each.steps:,}", f"{each.speed:,.0f}")
        lines.add_row(name, *counts, f"{'> ' if each.at_least else ''}{each.hours:.3f}")
    return lines


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
