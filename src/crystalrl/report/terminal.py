"""What the commands print: reports, forecasts, trials."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from rich.console import Console
from rich.progress import track
from rich.table import Table as Lines

from crystalrl.report import html, text
from crystalrl.report.text import Grid
from crystalrl.study.analysis import load_results
from crystalrl.study.definition import Table
from crystalrl.study.execution import prepare
from crystalrl.study.forecast import forecast
from crystalrl.study.plan import Group, plan
from crystalrl.study.store import Store, as_parquet
from crystalrl.study.tuning import Search, Trials, best, tune


def show_report(folder: Path, console: Console) -> None:
    """Tables of every results folder that has some, and its page."""
    for inner in begun_in(folder):
        as_parquet(inner)
        results = load_results(inner)
        console.print(f"\n[bold]{results.table.title or results.table.suite}[/bold]")
        console.print(_lines(text.main_table(results, text.BRIEF)))
        if len(results.rows) > 1:
            console.print(_lines(text.comparison_table(results, brief=True)))
            console.print(text.family(results), highlight=False)
        for grid in (text.sensitivity_table(results), text.order_table(results)):
            if grid.lines:
                console.print(_lines(grid))
        console.print(text.headline(results), highlight=False)
        console.print(f"The whole report: {html.write_report(inner)}", highlight=False)


def results_in(folder: Path) -> list[Path]:
    """The folder itself, or the results folders in it."""
    found = [folder] if (folder / "spec.toml").is_file() else sorted(path.parent for path in folder.glob("*/spec.toml"))
    if not found:
        raise FileNotFoundError(f"{folder}: wanted a folder of results, found no spec.toml in it or below")
    return found


def begun_in(folder: Path) -> list[Path]:
    """Those of them that hold results; all, if none does."""
    found = results_in(folder)
    return [inner for inner in found if (inner / "scores.parquet").is_dir()] or found


def show_forecast(tables: Mapping[Path, Table], device: str, console: Console) -> None:
    """Measure every run that is not stored yet, and print what is to come."""
    prepare(device)
    lines = Lines("run", "cells", "lanes", "environment steps", "steps/s", "hours")
    groups = [group for folder, table in tables.items() for group in _to_do(folder, table)]
    cells = steps = 0
    hours, above = 0.0, ""
    for group in track(groups, "Measuring", console=console, transient=True, disable=not console.is_terminal):
        f = forecast(group, device)
        speed = f.speed * group.spec.envs * f.lanes
        cells, steps, hours = cells + len(f.cells), steps + f.steps, hours + f.hours
        named, more = f.cells[0] + (" …" if len(f.cells) > 1 else ""), "> " if f.at_least else ""
        above = above or more
        counts = (f"{len(f.cells)}", f"{f.lanes}", f"{f.steps:,}")
        lines.add_row(named, *counts, f"{speed:,.0f}", f"{more}{f.hours:.3f}")
    console.print(lines)
    if above:
        console.print(">: longer than that, for its tests took too long to be measured to their end.", highlight=False)
    gpu = hours if device.startswith("cuda") else 0.0
    told = f"{cells} cells, {steps:,} environment steps, {above}{hours:.3f} hours on {device}, {gpu:.3f} GPU-hours"
    console.print(f"To do: {told}, one run after the other.", highlight=False, soft_wrap=True)


def _to_do(folder: Path, table: Table) -> list[Group]:
    """The runs of a table that are not stored yet."""
    stored = Store(folder, table.to_toml()) if (folder / "spec.toml").is_file() else None
    return [group for group in plan(table.runs()) if stored is None or not stored.has(group.key)]


def show_tuning(search: Search, folder: Path, device: str, console: Console) -> None:
    """Run the trials that are missing, print each, and the best of every row."""
    prepare(device)
    for trial in tune(search, folder, device):
        tried = ", ".join(f"{name} = {value}" for name, value in trial.settings.items())
        console.print(
            f"{trial.row} {trial.number + 1}/{search.trials}: {trial.value:.3f} with {tried}", highlight=False
        )
    kept = Trials(folder, search)
    lines = Lines("", "trials", f"{search.table.objective}, tuning seeds", "best settings")
    for name in search.table.rows:
        first = best(kept.of(name))
        settings = "\n".join(f"{setting} = {value}" for setting, value in first.settings.items())
        lines.add_row(name, f"{len(kept.of(name))}", f"{first.value:.3f}", settings)
    console.print(lines)
    console.print(f"Every trial: {kept.path}", highlight=False)


def _lines(grid: Grid) -> Lines:
    lines = Lines(*grid.headings)
    for line in grid.lines:
        lines.add_row(*line)
    return lines
