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

from crystalrl.cli import theory as theory_cli
from crystalrl.report import live, markdown
from crystalrl.report.terminal import begun_in, results_in, show_forecast, show_report, show_tuning
from crystalrl.study import registry
from crystalrl.study.definition import Table, load_study, pick, study_names, table_from
from crystalrl.study.execution import best_device
from crystalrl.study.how import How
from crystalrl.study.plan import plan
from crystalrl.study.spec import SECTIONS, RunFields, RunSpec, Value
from crystalrl.study.store import Store
from crystalrl.study.tuning import load_search


@dataclass(frozen=True)
class Run:
    """Learn one suite with one design; listed values and seeds run side by side, as lanes.

    Settings of the memory, the method and the agent: --params.NAME, --method-params.NAME, --agent-params.NAME; several
    values separated by commas are all run.
    """

    spec: tyro.conf.OmitArgPrefixes[RunFields]
    out: Path = Path("runs/run")
    """Where results go; started again, an interrupted run goes on."""
    how: tyro.conf.OmitArgPrefixes[How] = field(default_factory=How)


@dataclass(frozen=True)
class Study:
    """Run a study: one that comes with the library, or a .toml file."""

    name: tyro.conf.Positional[str]
    tables: str = ""
    """Some of its tables, separated by commas; empty: all."""
    out: Path = Path("")
    """Where results go; empty: runs/NAME."""
    dry_run: bool = False
    """Only say what it would cost: cells, steps, hours, from speeds measured here."""
    how: tyro.conf.OmitArgPrefixes[How] = field(default_factory=How)


@dataclass(frozen=True)
class Resume:
    """Go on with whatever was interrupted, in a folder of results or in those below it."""

    folder: tyro.conf.Positional[Path]
    how: tyro.conf.OmitArgPrefixes[How] = field(default_factory=How)


@dataclass(frozen=True)
class Tune:
    """Tune the rows of a .toml file with Optuna: the same number of trials for each, on seeds that no report shows."""

    file: tyro.conf.Positional[Path]
    out: Path = Path("")
    """Where trials are stored; empty: runs/NAME. Started again, tuning goes on there."""
    device: str = ""
    """cpu or cuda; empty: cuda where there is one."""


@dataclass(frozen=True)
class Report:
    """Render stored results: tables to the terminal, everything to report.html.

    Parts that were computed where pyarrow is missing (.npz) become parquet.
    """

    folder: tyro.conf.Positional[Path]
    docs: Path = Path("")
    """Also write the tables of all results below the folder to this markdown file."""


@dataclass(frozen=True)
class Show:
    """What exists, one line each."""


@dataclass(frozen=True)
class Theory:
    """Laws of crystallization: show one, design a memory, check the paper's claims (see `crystalrl theory --help`)."""


@dataclass(frozen=True)
class Demo:
    """Six designs learn four tasks in a few minutes; then a table and a page."""

    out: Path = Path("runs/demo")


Command = (
    Annotated[Run, tyro.conf.subcommand("run")]
    | Annotated[Study, tyro.conf.subcommand("study")]
    | Annotated[Resume, tyro.conf.subcommand("resume")]
    | Annotated[Tune, tyro.conf.subcommand("tune")]
    | Annotated[Report, tyro.conf.subcommand("report")]
    | Annotated[Show, tyro.conf.subcommand("list")]
    | Annotated[Theory, tyro.conf.subcommand("theory")]
    | Annotated[Demo, tyro.conf.subcommand("demo")]
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point of `crystalrl`."""
    console = Console()
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given[:1] == ["theory"]:
        raise SystemExit(theory_cli.main(given[1:], console))
    rest, sections = take_sections(given)
    try:
        command = tyro.cli(Command, prog="crystalrl", args=rest)
        _obey(command, sections, console)
    except (ValueError, FileNotFoundError) as error:
        console.print(f"[red]error[/red] {escape(str(error))}", highlight=False, soft_wrap=True)
        raise SystemExit(2) from None


def take_sections(arguments: Sequence[str]) -> tuple[list[str], dict[str, dict[str, Any]]]:
    """Split off `--params.NAME VALUE` and its kin: what is left, and section → name → value or values."""
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
        case Run(given, out, how):
            spec = RunSpec(**{**vars(given), **sections})
            registry.check(spec)
            name = spec.memory if spec.method == "none" else f"{spec.memory}+{spec.method}"
            _run_tables({out: Table("", {spec.preset or name: spec})}, how, console)
        case Study(name, tables, out, dry_run, how):
            folder = out if out.name else Path("runs") / Path(name).stem
            found = {folder / key: table for key, table in pick(load_study(name), tables).items()}
            if dry_run:
                show_forecast(found, how.device or best_device(), console)
            else:
                _run_tables(found, how, console)
        case Resume(folder, how):
            stored = {inner: (inner / "spec.toml").read_text() for inner in results_in(folder)}
            _run_tables({inner: table_from(tomllib.loads(spec)) for inner, spec in stored.items()}, how, console)
        case Tune(file, out, device):
            folder = out if out.name else Path("runs") / file.stem
            show_tuning(load_search(file), folder, device or best_device(), console)
        case Report(folder, docs):
            show_report(folder, console)
            if docs.name:
                written = f"crystalrl report {folder} --docs {docs}"
                console.print(f"Tables: {markdown.write_page(begun_in(folder), docs, written)}", highlight=False)
        case Show():
            _list(console)
        case Demo(out):
            _demo(out, console)


def _run_tables(tables: Mapping[Path, Table], how: How, console: Console) -> None:
    plans = {folder: plan(table.runs()) for folder, table in tables.items()}
    stores = {folder: Store(folder, table.to_toml()) for folder, table in tables.items()}  # so that `resume` knows all
    for folder, groups in plans.items():
        live.follow(how.events(groups, stores[folder]), groups, console)
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
    """A study in a line: its title, or the names of its tables."""
    return tables[""].title if "" in tables else f"tables {', '.join(tables)}"


def _demo(out: Path, console: Console) -> None:
    (table,) = load_study("demo").values()
    _run_tables({out: table}, How("cpu"), console)
    console.print(OWN_AGENT, highlight=False, soft_wrap=True)


OWN_AGENT = """
On your own agent:
  memory = CrystalMemory(100_000, obs=(17,), action=6, params=CrystalParams.anchored(), anchor={"q": (6,)})
  memory.add(Transition(obs, action, reward, next_obs, terminated, truncated))
  batch = memory.sample(256)     # your loss: batch.weight · TD error² + batch.anchor["q"].coefficient · (q − target)²
  memory.update(batch.index, td_error)
  if memory.due: memory.consolidate(lambda batch: Evaluation(td_errors(batch), {"q": network(batch.obs)}))
More seeds, tasks and designs: `crystalrl run --help`, `crystalrl list`."""
