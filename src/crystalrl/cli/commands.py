"""The commands and what they do."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro
from rich.console import Console

from crystalrl.cli import theory
from crystalrl.cli.check_tasks import check_tasks
from crystalrl.cli.doctor import show_doctor
from crystalrl.cli.inspection import Chosen, inspect_command
from crystalrl.cli.pages import Wanted, report_command
from crystalrl.cli.parsing import completion_script, parsed, take_sections
from crystalrl.cli.terminal import show_forecast, show_tuning
from crystalrl.cli.training import continued_by, run_tables
from crystalrl.report.export import Format
from crystalrl.study import registry
from crystalrl.study.definition import Table, load_study, study_names, study_values, table_from
from crystalrl.study.execution import Execution, best_device
from crystalrl.study.kinds import METHODS
from crystalrl.study.spec import RunFields, RunSpec, read_toml
from crystalrl.study.store import result_folders
from crystalrl.study.task_files import load_tasks
from crystalrl.study.tuning import Search, load_search, study_searches, with_best


@dataclass(frozen=True)
class Run:
    """Train on one suite; listed values and seeds are trained together, as lanes.

    Settings of the memory, the method and the agent: --params.NAME, --method-params.NAME, --agent-params.NAME. Several
    values, separated by commas, are all run.
    """

    spec: tyro.conf.OmitArgPrefixes[RunFields]
    tasks: Path = Path("")
    """TOML file with your own [[tasks]], in place of a suite; `crystalrl check-tasks FILE` tries them."""
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
    tuned: Path = Path("")
    """Folder of trials from `crystalrl tune`: each row that was tuned gets the settings of its best trial."""
    dry_run: bool = False
    """Only print the cost: cells, steps, hours and GPUs, from stored speeds of the published benchmarks, otherwise from
    speeds measured on this machine."""
    measure: bool = False
    """With --dry-run: measure all speeds on this machine."""
    execution: tyro.conf.OmitArgPrefixes[Execution] = field(default_factory=Execution)


@dataclass(frozen=True)
class CheckTasks:
    """Try the [[tasks]] of a .toml file with random actions: spaces, episodes, scores, speed, and what is wrong."""

    file: tyro.conf.Positional[Path]


@dataclass(frozen=True)
class Resume:
    """Continue interrupted runs in a folder of results, or in all results folders below it."""

    folder: tyro.conf.Positional[Path]
    execution: tyro.conf.OmitArgPrefixes[Execution] = field(default_factory=Execution)


@dataclass(frozen=True)
class Tune:
    """Tune the rows of a .toml file or of a built-in study with Optuna, with equal numbers of trials, on seeds that are
    never reported.
    """

    file: tyro.conf.Positional[Path]
    tables: str = ""
    """Tables of a study to tune, separated by commas; empty: all that have a search."""
    out: Path = Path("")
    """Folder for the trials; empty: runs/NAME, for a study runs/tune-NAME. Interrupted tuning continues there."""
    device: str = ""
    """cpu or cuda; empty: cuda if available."""


@dataclass(frozen=True)
class Shown:
    """What to write: options of the commands that show results."""

    out: Annotated[Path, tyro.conf.arg(aliases=["-o"])] = Path("")
    """File to write, or folder for csv, png and svg; empty: in the folder of results."""
    format: Format = "html"
    """html: a page; md, tex: tables; csv: data of all charts and tables; png, svg: all charts."""
    charts: str = ""
    """Names of the charts to write as csv, png or svg, separated by commas; empty: all."""
    live: bool = False
    """Serve the page on this machine only, and update it while runs proceed, until Ctrl-C."""

    @property
    def wanted(self) -> Wanted:
        names = tuple(name for name in self.charts.split(",") if name)
        return Wanted(self.format, self.out if self.out.name else None, self.live, names)


@dataclass(frozen=True)
class Report:
    """Render stored results: tables in the terminal, everything in one self-contained page, report.html.

    Several studies are also shown side by side. Parts that were stored without pyarrow (.npz) are converted to parquet.
    """

    folders: tyro.conf.Positional[tuple[Path, ...]]
    """Folders of results, or folders that contain some."""
    shown: tyro.conf.OmitArgPrefixes[Shown] = field(default_factory=Shown)
    docs: Path = Path("")
    """Also write the tables of all results below the first folder to this markdown file."""
    figure: Path = Path("")
    """Also draw the average performance of all rows to this .svg file; for a single results folder."""


@dataclass(frozen=True)
class Inspect:
    """Look inside memories: those of a run (a folder of results), or the file of one (`memory.save`)."""

    path: tyro.conf.Positional[Path]
    shown: tyro.conf.OmitArgPrefixes[Shown] = field(default_factory=Shown)
    row: str = ""
    """Only this row of a study; empty: all whose memory has phases."""
    lane: int = 0
    """Lane of a memory's file."""
    lipschitz: Annotated[float | None, tyro.conf.arg(metavar="L")] = None
    """How much the true values change at most per unit of the observation (Euclidean), if you know it: the bound of the
    value error then uses it. None: the page takes the largest slope of the stored values."""


@dataclass(frozen=True)
class List:
    """List all suites, memories, methods, agents, presets and studies."""


@dataclass(frozen=True)
class Theory:
    """The law of crystallization: show it, design a memory, check claims of the paper (`crystalrl theory --help`)."""

    command: tyro.conf.OmitSubcommandPrefixes[theory.Choices]


@dataclass(frozen=True)
class Demo:
    """Train seven configurations on four tasks in a few minutes, then print a table and write a report page."""

    out: Path = Path("runs/demo")
    """Folder for the results; an interrupted demo continues there."""


@dataclass(frozen=True)
class Doctor:
    """Show what is installed, which backend and devices are used, and test the library in a few seconds."""


@dataclass(frozen=True)
class Completion:
    """Print a script that completes commands and options: `source <(crystalrl completion bash)`."""

    shell: tyro.conf.Positional[Literal["bash", "zsh", "fish"]]


Command = (
    Annotated[Run, tyro.conf.subcommand("run")]
    | Annotated[Study, tyro.conf.subcommand("study")]
    | Annotated[CheckTasks, tyro.conf.subcommand("check-tasks")]
    | Annotated[Resume, tyro.conf.subcommand("resume")]
    | Annotated[Tune, tyro.conf.subcommand("tune")]
    | Annotated[Report, tyro.conf.subcommand("report")]
    | Annotated[Inspect, tyro.conf.subcommand("inspect")]
    | Annotated[List, tyro.conf.subcommand("list")]
    | Annotated[Theory, tyro.conf.subcommand("theory")]
    | Annotated[Demo, tyro.conf.subcommand("demo")]
    | Annotated[Doctor, tyro.conf.subcommand("doctor")]
    | Annotated[Completion, tyro.conf.subcommand("completion")]
)


def run_command(words: Sequence[str], console: Console | None = None) -> None:
    """Run the command that the words of a command line describe."""
    console = console or Console()
    rest, sections = take_sections(words)
    _dispatch(parsed(Command, rest), sections, console)


def _dispatch(command: object, sections: Mapping[str, Any], console: Console) -> None:
    if any(sections.values()) and not isinstance(command, Run):
        names = ", ".join(f"--{section}.{name}" for section, values in sections.items() for name in values)
        raise ValueError(
            f"options: wanted settings of a memory, method or agent only with `crystalrl run`, got {names}"
        )
    match command:
        case Run(given, tasks, out, execution):
            own = _own_tasks(given, tasks) if tasks.name else {}
            spec = RunSpec(**{**vars(given), **sections, **own})
            registry.check(spec)
            name = spec.memory if spec.method == "none" else f"{spec.memory}+{spec.method}"
            run_tables({out: Table("", {spec.preset or name: spec})}, execution, console)
        case Study(name, tables, out, tuned, dry_run, measure, execution):
            folder = out if out.name else Path("runs") / (Path(name).stem if name.endswith(".toml") else name)
            picked = load_study(name, tables)
            best = {key: with_best(table, tuned / key) if tuned.name else table for key, table in picked.items()}
            found = {folder / key: table for key, table in best.items()}
            if dry_run:
                show_forecast(found, execution.device or best_device(), console, measure)
            else:
                run_tables(found, execution, console)
        case CheckTasks(file):
            if not check_tasks(file, console):
                raise SystemExit(1)
        case Resume(folder, execution):
            stored = {inner: table_from(read_toml(inner / "spec.toml")) for inner in result_folders(folder)}
            run_tables(stored, execution, console)
        case Tune(file, tables, out, device):
            for folder, search in _searches(file, tables, out).items():
                with continued_by(shlex.join(["crystalrl", "tune", str(file), "--out", str(folder)])):
                    show_tuning(search, folder, device or best_device(), console)
        case Report(folders, shown, docs, figure):
            report_command(folders, console, shown.wanted, docs, figure)
        case Inspect(path, shown, row, lane, lipschitz):
            inspect_command(Chosen(path, row, lane, lipschitz), console, shown.wanted)
        case Theory(chosen):
            theory.COMMANDS[type(chosen)](chosen, console)
        case List():
            _list(console)
        case Demo(out):
            _demo(out, console)
        case Doctor():
            show_doctor(console)
        case Completion(shell):
            print(completion_script(Command, shell))


def _searches(file: Path, tables: str, out: Path) -> dict[Path, Search]:
    """What to tune, by the folder of its trials."""
    if file.suffix == ".toml" and not (file.is_file() and "tables" in read_toml(file)):
        return {out if out.name else Path("runs") / file.stem: load_search(file)}
    folder = out if out.name else Path("runs") / f"tune-{file.stem}"
    return {folder / key: search for key, search in study_searches(str(file), tables).items()}


def _own_tasks(given: RunFields, tasks: Path) -> dict[str, Any]:
    """The suite that a file of tasks describes."""
    if given.suite != RunFields.suite:
        raise ValueError(f"suite: wanted none with --tasks, got {given.suite!r}")
    return {"suite": load_tasks(tasks)}


def _list(console: Console) -> None:
    kinds = {"memories": registry.MEMORIES, "agents": registry.AGENTS}
    sections = {"suites": registry.SUITES, **{k: {n: e.about for n, e in v.items()} for k, v in kinds.items()}}  # type: ignore[attr-defined]
    sections["suites"] = {**sections["suites"], "--tasks FILE": "your own environments; `crystalrl check-tasks FILE`"}
    sections["methods (whether they need task boundaries)"] = {n: f"{e.about} ({e.told})" for n, e in METHODS.items()}
    sections["presets of the crystal memory"] = registry.presets()
    sections["studies"] = {name: _about(study_values(name)) for name in study_names()}
    for title, entries in sections.items():
        console.print(f"[bold]{title}[/bold]")
        for name, about in entries.items():
            console.print(f"  {name:18} {about}", highlight=False, soft_wrap=True)


def _about(tables: Mapping[str, Mapping[str, Any]]) -> str:
    """A study in one line: its title, or the names of its tables. Nothing is built: it may need other packages."""
    return str(tables[""].get("title", "")) if "" in tables else f"tables {', '.join(tables)}"


def _demo(out: Path, console: Console) -> None:
    (table,) = load_study("demo").values()
    run_tables({out: table}, Execution("cpu"), console)
    console.print(OWN_AGENT, highlight=False, soft_wrap=True)


OWN_AGENT = """
With your own agent:
  memory = CrystalMemory(100_000, obs=(4,), action=2, anchor={"advantage": (2,)})
  memory.add(Transition(obs, action, reward, next_obs, terminated, truncated))
  batch = memory.sample(64)
  loss = (batch.weight * td_error**2).mean() + anchor_loss(advantages(q), batch.anchor["advantage"])
  memory.update(batch, td_error)
  if memory.due: memory.consolidate(evaluate)
docs/start.md has the whole program. More seeds, tasks and configurations: `crystalrl run --help`, `crystalrl list`."""
