"""The command line: a thin shell around the library."""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.console import Console
from rich.markup import escape

from crystalrl._version import __version__
from crystalrl.cli import theory
from crystalrl.cli.progress import ProgressDisplay
from crystalrl.cli.terminal import show_forecast, show_report, show_tuning
from crystalrl.report import markdown
from crystalrl.study import registry
from crystalrl.study.definition import Table, load_study, pick, study_names, table_from
from crystalrl.study.execution import Execution, best_device
from crystalrl.study.plan import plan
from crystalrl.study.spec import SECTIONS, RunFields, RunSpec, Value
from crystalrl.study.store import Store, result_folders, scored_folders
from crystalrl.study.tuning import load_search


@dataclass(frozen=True)
class Run:
    """Train on one suite; listed values and seeds are trained together, as lanes.

    Settings of the memory, the method and the agent: --params.NAME, --method-params.NAME, --agent-params.NAME. Several
    values, separated by commas, are all run.
    """

    spec: tyro.conf.OmitArgPrefixes[RunFields]
    out: Path = Path("runs/run")
    """Folder for the results; an interrupted run continues there."""
    execution: tyro.conf.OmitArgPrefixes[Execution] = field(default_factory=Execution)


@dataclass(frozen=True)
class Study:
    """Run a study: a built-in one, or a .toml file."""

    name: tyro.conf.Positional[str]
    tables: str = ""
    """Tables to run, separated by commas; empty: all."""
    out: Path = Path("")
    """Folder for the results; empty: runs/NAME."""
    dry_run: bool = False
    """Only print the cost: cells, steps and hours, from speeds measured on this machine."""
    execution: tyro.conf.OmitArgPrefixes[Execution] = field(default_factory=Execution)


@dataclass(frozen=True)
class Resume:
    """Continue interrupted runs in a folder of results, or in all results folders below it."""

    folder: tyro.conf.Positional[Path]
    execution: tyro.conf.OmitArgPrefixes[Execution] = field(default_factory=Execution)


@dataclass(frozen=True)
class Tune:
    """Tune the rows of a .toml file with Optuna, with equal numbers of trials, on seeds that are never reported."""

    file: tyro.conf.Positional[Path]
    out: Path = Path("")
    """Folder for the trials; empty: runs/NAME. Interrupted tuning continues there."""
    device: str = ""
    """cpu or cuda; empty: cuda if available."""


@dataclass(frozen=True)
class Report:
    """Render stored results: tables in the terminal, everything in report.html.

    Parts that were stored without pyarrow (.npz) are converted to parquet.
    """

    folder: tyro.conf.Positional[Path]
    docs: Path = Path("")
    """Also write the tables of all results below the folder to this markdown file."""


@dataclass(frozen=True)
class List:
    """List all suites, memories, methods, agents, presets and studies."""


@dataclass(frozen=True)
class Theory:
    """The law of crystallization: show it, design a memory, check claims of the paper (`crystalrl theory --help`)."""


@dataclass(frozen=True)
class Demo:
    """Train seven configurations on four tasks in a few minutes, then print a table and write a report page."""

    out: Path = Path("runs/demo")
    """Folder for the results; an interrupted demo continues there."""


Command = (
    Annotated[Run, tyro.conf.subcommand("run")]
    | Annotated[Study, tyro.conf.subcommand("study")]
    | Annotated[Resume, tyro.conf.subcommand("resume")]
    | Annotated[Tune, tyro.conf.subcommand("tune")]
    | Annotated[Report, tyro.conf.subcommand("report")]
    | Annotated[List, tyro.conf.subcommand("list")]
    | Annotated[Theory, tyro.conf.subcommand("theory")]
    | Annotated[Demo, tyro.conf.subcommand("demo")]
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point of `crystalrl`."""
    console = Console()
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given == ["--version"]:
        console.print(f"crystalrl {__version__}", highlight=False)
        return
    if given[:1] == ["theory"]:
        raise SystemExit(theory.main(given[1:], console))
    rest, sections = take_sections(given)
    try:
        command = tyro.cli(Command, prog="crystalrl", args=rest)
        _dispatch(command, sections, console)
    except (ValueError, OSError) as error:
        console.print(f"[red]error[/red] {escape(str(error))}", highlight=False, soft_wrap=True)
        raise SystemExit(2) from None
    except KeyboardInterrupt:
        console.print("Interrupted. Results so far are kept: `crystalrl resume FOLDER` continues.", highlight=False)
        raise SystemExit(130) from None


def take_sections(arguments: Sequence[str]) -> tuple[list[str], dict[str, dict[str, Any]]]:
    """Split off `--params.NAME VALUE` and the other sections: the remaining words, and section → name → value(s)."""
    rest: list[str] = []
    sections: dict[str, dict[str, Any]] = {section: {} for section in SECTIONS}
    words = iter(arguments)
    for word in words:
        option, given, value = word.partition("=")
        section, _, name = option.removeprefix("--").replace("-", "_").partition(".")
        if not (word.startswith("--") and section in sections and name):
            rest.append(word)
            continue
        sections[section][name] = parse_choice(value if given else next(words, ""))
    return rest, sections


def parse_choice(given: str) -> Value | list[Value]:
    """A number, a boolean, a word, or several of them separated by commas."""
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


def _dispatch(command: object, sections: Mapping[str, Any], console: Console) -> None:
    if any(sections.values()) and not isinstance(command, Run):
        raise ValueError("settings such as --params.NAME belong to `crystalrl run`")
    match command:
        case Run(given, out, execution):
            spec = RunSpec(**{**vars(given), **sections})
            registry.check(spec)
            name = spec.memory if spec.method == "none" else f"{spec.memory}+{spec.method}"
            _run_tables({out: Table("", {spec.preset or name: spec})}, execution, console)
        case Study(name, tables, out, dry_run, execution):
            folder = out if out.name else Path("runs") / Path(name).stem
            found = {folder / key: table for key, table in pick(load_study(name), tables).items()}
            if dry_run:
                show_forecast(found, execution.device or best_device(), console)
            else:
                _run_tables(found, execution, console)
        case Resume(folder, execution):
            stored = {inner: (inner / "spec.toml").read_text() for inner in result_folders(folder)}
            _run_tables({inner: table_from(tomllib.loads(spec)) for inner, spec in stored.items()}, execution, console)
        case Tune(file, out, device):
            folder = out if out.name else Path("runs") / file.stem
            show_tuning(load_search(file), folder, device or best_device(), console)
        case Report(folder, docs):
            show_report(folder, console)
            if docs.name:
                written = f"crystalrl report {folder} --docs {docs}"
                console.print(f"Tables: {markdown.write_page(scored_folders(folder), docs, written)}", highlight=False)
        case List():
            _list(console)
        case Demo(out):
            _demo(out, console)


def _run_tables(tables: Mapping[Path, Table], execution: Execution, console: Console) -> None:
    """Train all tables and report each. All stores are created first, so that `resume` finds every table."""
    plans = {folder: plan(table.runs()) for folder, table in tables.items()}
    stores = {folder: Store(folder, table.to_toml()) for folder, table in tables.items()}
    for folder, groups in plans.items():
        with ProgressDisplay(groups, console) as display:
            for number, event in execution.events(groups, stores[folder]):
                display.show(number, event)
        show_report(folder, console)


def _list(console: Console) -> None:
    kinds = {"memories": registry.MEMORIES, "methods": registry.METHODS, "agents": registry.AGENTS}
    sections = {"suites": registry.SUITES, **{k: {n: e.about for n, e in v.items()} for k, v in kinds.items()}}  # type: ignore[attr-defined]
    sections["presets of the crystal memory"] = registry.presets()
    sections["studies"] = {name: _about(load_study(name)) for name in study_names()}
    for title, entries in sections.items():
        console.print(f"[bold]{title}[/bold]")
        for name, about in entries.items():
            console.print(f"  {name:18} {about}", highlight=False, soft_wrap=True)


def _about(tables: Mapping[str, Table]) -> str:
    """A study in one line: its title, or the names of its tables."""
    return tables[""].title if "" in tables else f"tables {', '.join(tables)}"


def _demo(out: Path, console: Console) -> None:
    (table,) = load_study("demo").values()
    _run_tables({out: table}, Execution("cpu"), console)
    console.print(OWN_AGENT, highlight=False, soft_wrap=True)


OWN_AGENT = """
With your own agent:
  memory = CrystalMemory(100_000, obs=(17,), action=6, anchor={"q": (6,)})
  memory.add(Transition(obs, action, reward, next_obs, terminated, truncated))
  batch = memory.sample(256)     # your loss: batch.weight · TD error² + batch.anchor["q"].coefficient · (q − target)²
  memory.update(batch, td_error)
  if memory.due: memory.consolidate(lambda batch: Evaluation(td_errors(batch), {"q": network(batch.obs)}))
More seeds, tasks and configurations: `crystalrl run --help`, `crystalrl list`."""
