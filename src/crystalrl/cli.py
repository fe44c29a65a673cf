"""The command line: a thin shell around the library."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import torch
import tyro
from rich.console import Console
from rich.table import Table as Lines

from crystalrl.report import html, live, markdown, text
from crystalrl.report.text import Grid
from crystalrl.study import catalogue
from crystalrl.study.analysis import load_results
from crystalrl.study.execute import best_device, execute
from crystalrl.study.plan import plan
from crystalrl.study.spec import SECTIONS, RunSpec, Value
from crystalrl.study.store import Store
from crystalrl.study.tables import Table, load_study, pick, study_names


@dataclass(frozen=True)
class Run:
    """Learn one suite with one design; listed values and seeds run side by side, as lanes.

    Settings of the memory, the method and the agent: --params.NAME, --method-params.NAME, --agent-params.NAME; several
    values separated by commas are all run.
    """

    spec: tyro.conf.OmitArgPrefixes[RunSpec]
    out: Path = Path("runs/run")
    """Where results go; started again, an interrupted run goes on."""
    device: str = ""
    """cpu or cuda; empty: cuda where there is one."""


@dataclass(frozen=True)
class Study:
    """Run a study: one that comes with the library, or a .toml file."""

    name: tyro.conf.Positional[str]
    tables: str = ""
    """Some of its tables, separated by commas; empty: all."""
    out: Path = Path("")
    """Where results go; empty: runs/NAME."""
    device: str = ""
    """cpu or cuda; empty: cuda where there is one."""


@dataclass(frozen=True)
class Report:
    """Render stored results: tables to the terminal, everything to report.html."""

    folder: tyro.conf.Positional[Path]
    docs: Path = Path("")
    """Also write the tables of all results below the folder to this markdown file."""


@dataclass(frozen=True)
class Show:
    """What exists, one line each."""


@dataclass(frozen=True)
class Demo:
    """Six designs learn four tasks in a few minutes; then a table and a page."""

    out: Path = Path("runs/demo")


Command = (
    Annotated[Run, tyro.conf.subcommand("run")]
    | Annotated[Study, tyro.conf.subcommand("study")]
    | Annotated[Report, tyro.conf.subcommand("report")]
    | Annotated[Show, tyro.conf.subcommand("list")]
    | Annotated[Demo, tyro.conf.subcommand("demo")]
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point of `crystalrl`."""
    console = Console()
    rest, sections = take_sections(sys.argv[1:] if arguments is None else arguments)
    try:
        command = tyro.cli(Command, prog="crystalrl", args=rest)
        _obey(command, sections, console)
    except (ValueError, FileNotFoundError) as error:
        console.print(f"[red]error[/red] {error}", highlight=False)
        raise SystemExit(2) from None


def take_sections(arguments: Sequence[str]) -> tuple[list[str], dict[str, dict[str, Any]]]:
    """Split off `--params.NAME VALUE` and its kin: what is left, and section → name → value or values."""
    rest: list[str] = []
    sections: dict[str, dict[str, Any]] = {section: {} for section in SECTIONS}
    words = iter(arguments)
    for word in words:
        section, _, name = word.removeprefix("--").replace("-", "_").partition(".")
        if not (word.startswith("--") and section in sections and name):
            rest.append(word)
            continue
        name, given, value = name.partition("=")
        sections[section][name] = parse_choice(value if given else next(words, ""))
    return rest, sections


def parse_choice(given: str) -> Value | list[Value]:
    """A number, a truth value, a word, or several of them separated by commas."""
    values = [_parse(part) for part in given.split(",")]
    return values if len(values) > 1 else values[0]


def _parse(word: str) -> Value:
    if word.lower() in ("true", "false"):
        return word.lower() == "true"
    for kind in (int, float):
        try:
            return kind(word)
        except ValueError:
            continue
    return word


def _obey(command: object, sections: Mapping[str, Any], console: Console) -> None:
    if any(sections.values()) and not isinstance(command, Run):
        raise ValueError("settings such as --params.NAME belong to `crystalrl run`")
    match command:
        case Run(spec, out, device):
            spec = replace(spec, **sections)
            name = spec.memory if spec.method == "none" else f"{spec.memory}+{spec.method}"
            _run_table(Table("", {spec.preset or name: spec}), out, device, console)
        case Study(name, tables, out, device):
            folder = out if out.name else Path("runs") / Path(name).stem
            for key, table in pick(load_study(name), tables).items():
                _run_table(table, folder / key, device, console)
        case Report(folder, docs):
            _report(folder, console)
            if docs.name:
                written = f"crystalrl report {folder} --docs {docs}"
                console.print(f"Tables: {markdown.write_page(_folders(folder), docs, written)}", highlight=False)
        case Show():
            _list(console)
        case Demo(out):
            _demo(out, console)


def _run_table(table: Table, out: Path, device: str, console: Console) -> None:
    where = device or best_device()
    if where == "cpu":
        _prepare_cpu()
    groups, store = plan(table.runs()), Store(out, table.to_toml())
    live.follow(execute(groups, store, where), groups, console)
    _report(out, console)


def _prepare_cpu() -> None:
    """One thread (the tensors are small), freed memory kept (fresh pages cost as much as the arithmetic here), denormal
    numbers as zero.
    """
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    try:
        library = ctypes.CDLL(None)
        library.mallopt(-3, 1 << 30)  # M_MMAP_THRESHOLD
        library.mallopt(-1, (1 << 31) - 1)  # M_TRIM_THRESHOLD
    except (OSError, AttributeError):
        pass  # another C library: only slower


def _report(folder: Path, console: Console) -> None:
    for inner in _folders(folder):
        results = load_results(inner)
        console.print(f"\n[bold]{results.table.title or results.table.suite}[/bold]")
        console.print(_lines(text.main_table(results)))
        if len(results.rows) > 1:
            console.print(_lines(text.comparison_table(results)))
        console.print(text.headline(results), highlight=False)
        console.print(f"The whole report: {html.write_report(inner)}", highlight=False)


def _folders(folder: Path) -> list[Path]:
    """The folder itself, or the results folders in it."""
    found = [folder] if (folder / "spec.toml").is_file() else sorted(path.parent for path in folder.glob("*/spec.toml"))
    if not found:
        raise FileNotFoundError(f"{folder}: wanted a folder of results, found no spec.toml in it or below")
    return found


def _lines(grid: Grid) -> Lines:
    lines = Lines(*grid.headings)
    for line in grid.lines:
        lines.add_row(*line)
    return lines


def _list(console: Console) -> None:
    kinds = {"memories": catalogue.MEMORIES, "methods": catalogue.METHODS, "agents": catalogue.AGENTS}
    sections = {"suites": catalogue.SUITES, **{k: {n: e.about for n, e in v.items()} for k, v in kinds.items()}}  # type: ignore[attr-defined]
    sections["presets"] = {p: f"of memory {n}" for n, kind in catalogue.MEMORIES.items() for p in kind.presets}
    sections["studies"] = {n: next(iter(load_study(n).values())).title for n in study_names()}
    for title, entries in sections.items():
        console.print(f"[bold]{title}[/bold]") if entries else None
        for name, about in entries.items():
            console.print(f"  {name:18} {about}", highlight=False)


def _demo(out: Path, console: Console) -> None:
    (table,) = load_study("demo").values()
    _run_table(table, out, "cpu", console)
    console.print("On your own agent: see examples/, or `crystalrl run --help`.", highlight=False)
