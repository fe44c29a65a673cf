"""Tuning with Optuna: every row gets the same number of trials, on seeds that are never reported.

    trials = 20                     # for each row
    seeds = "1000:1004"             # all ≥ 1000
    objective = "AP"
    [defaults]                      # any field of RunSpec, except seeds
    [rows.EWC]                      # as in a study
    method = "ewc"
    [search.EWC]                    # ranges, and lists of choices
    method_params.strength = { low = 1.0, high = 1e5, log = true }
    agent_params.learning_rate = [3e-4, 1e-3]

Trials are drawn `at_once` (4) at a time and trained together, as lanes. In a study, the seeds are its tuning seeds, and
rows without a search are not tuned. `trials.json` in the results folder holds all of them; if several processes share
the rows, each row has a folder. Started again, tuning continues from there.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from crystalrl.study.definition import Table, pick, study_values, table_from
from crystalrl.study.events import Scored
from crystalrl.study.metrics import measure
from crystalrl.study.plan import plan, stage_tasks
from crystalrl.study.run import run
from crystalrl.study.spec import SECTIONS, RunSpec, parse_seeds, read_toml, unknown
from crystalrl.study.table_files import write_whole
from crystalrl.suites.workers import Incident

FIRST_SEED = 1000
"""Seeds below this are for reports."""
AT_ONCE = 4
"""Trials that are drawn and trained together, unless the file says otherwise."""


@dataclass(frozen=True)
class Trial:
    """Settings (`section.name` → value) and the objective they reached, mean over the tuning seeds."""

    row: str
    number: int
    settings: Mapping[str, Any]
    value: float


@dataclass(frozen=True)
class Search:
    """What to tune: a table, the search space of every row, and the number of trials of each row."""

    table: Table
    spaces: Mapping[str, Mapping[str, Any]]
    """Row → `section.name` → {low, high, log} or a list."""
    trials: int
    at_once: int = AT_ONCE
    """Trials that are drawn and trained together."""

    def __post_init__(self) -> None:
        for name in ("trials", "at_once"):
            number = getattr(self, name)
            if not isinstance(number, int) or number < 1:
                raise ValueError(f"{name}: wanted a whole number ≥ 1, got {number!r}")
        for name, spec in self.table.rows.items():
            reported = sorted(seed for seed in spec.seeds if seed < FIRST_SEED)
            if reported:
                raise ValueError(f"seeds: wanted {FIRST_SEED} or more, the others are for reports, got {reported}")
            if not self.spaces.get(name):
                raise ValueError(f"search.{name}: wanted at least one range or list, as every row gets trials")
            for setting, space in self.spaces[name].items():
                _check_space(f"search.{name}.{setting}", space)
                low = space[0] if isinstance(space, list) else space["low"]
                changed(spec, {setting: low})
        for name in self.spaces:
            if name not in self.table.rows:
                raise ValueError(unknown("search", name, set(self.table.rows)))


def load_search(path: Path) -> Search:
    """A search from a .toml file."""
    values = read_toml(path)
    trials, spaces, at_once, seeds = (values.pop(name, None) for name in ("trials", "search", "at_once", "seeds"))
    for row in (values.get("defaults", {}), *values.get("rows", {}).values()):
        if "seeds" in row:
            raise ValueError("seeds: wanted once, at the top, the same for every row")
    values["defaults"] = {**values.get("defaults", {}), "seeds": list(parse_seeds(seeds if seeds is not None else ()))}
    flat = {row: _flat(row, given) for row, given in (spaces or {}).items()}
    return _search(table_from(values), flat, trials, at_once)


def _search(table: Table, spaces: Mapping[str, Any], trials: int | None, at_once: int | None) -> Search:
    return Search(table, spaces, 20 if trials is None else trials, AT_ONCE if at_once is None else at_once)


def study_searches(name: str, tables: str = "") -> dict[str, Search]:
    """The searches of a study, by table: the rows that have one, on the table's tuning seeds. `tables`: see `pick`."""
    found = {}
    for key, values in pick(study_values(name), tables).items():
        spaces = {row: _flat(row, given) for row, given in values.get("search", {}).items()}
        table = table_from(values)
        for row in spaces:
            if row not in table.rows:
                raise ValueError(unknown("search", row, set(table.rows)))
        rows = {row: replace(table.rows[row], seeds=table.tuning_seeds) for row in spaces}
        if rows:
            own = Table(table.title, rows, table.objective)
            found[key] = _search(own, spaces, values.get("trials"), values.get("at_once"))
    if not found:
        raise ValueError(f"tune: wanted a study with [search.ROW], got {name} without")
    return found


def with_best(table: Table, folder: Path) -> Table:
    """The table, each row that has trials in a folder with the settings of its best one."""
    paths = sorted([*folder.glob("trials.json"), *folder.glob("*/trials.json")])
    if not paths:
        raise ValueError(f"tuned: wanted trials.json in {folder}, got none: run `crystalrl tune` first")
    trials = [Trial(**trial) for path in paths for trial in json.loads(path.read_text())["trials"]]
    rows = dict(table.rows)
    for name in dict.fromkeys(trial.row for trial in trials if trial.row in rows):
        rows[name] = changed(rows[name], best([trial for trial in trials if trial.row == name]).settings)
    return replace(table, rows=rows)


def _flat(row: str, given: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    for section in given:
        if section not in SECTIONS:
            raise ValueError(unknown(f"search.{row}", section, set(SECTIONS)))
    return {f"{section}.{name}": space for section, named in given.items() for name, space in named.items()}


def tune(search: Search, folder: Path, device: str) -> Iterator[Trial]:
    """Run all trials that are not stored yet, row by row; yields each trial once it is stored."""
    kept = Trials(folder, search)
    for name in search.table.rows:
        for first in range(len(kept.of(name)), search.trials, search.at_once):
            count = min(search.at_once, search.trials - first)
            found = _run_trials(search, name, kept.of(name), count, device)
            kept.add(found)
            yield from found


class Trials:
    """All trials of a folder. Invariant: they belong to the search that is stored with them."""

    def __init__(self, folder: Path, search: Search) -> None:
        self.path, self.spec = folder / "trials.json", _described(search)
        self.all: list[Trial] = []
        if self.path.is_file():
            stored = json.loads(self.path.read_text())
            if stored["search"] != self.spec:
                raise ValueError(
                    f"out: wanted trials of this search, got those of another in {folder}; choose another folder "
                    "with --out"
                )
            self.all = [Trial(**trial) for trial in stored["trials"]]
        folder.mkdir(parents=True, exist_ok=True)

    def of(self, row: str) -> list[Trial]:
        """The trials of a row, in order."""
        return [trial for trial in self.all if trial.row == row]

    def add(self, trials: Sequence[Trial]) -> None:
        """Store more trials."""
        self.all += trials
        text = json.dumps({"search": self.spec, "trials": [asdict(trial) for trial in self.all]}, indent=1)
        write_whole(self.path, (text + "\n").encode())


def best(trials: Sequence[Trial]) -> Trial:
    """The trial with the highest value; the first of several."""
    return max(trials, key=lambda trial: trial.value)


def changed(spec: RunSpec, settings: Mapping[str, Any]) -> RunSpec:
    """A spec with some settings replaced, validated."""
    sections = {section: dict(getattr(spec, section)) for section in SECTIONS}
    for full, value in settings.items():
        section, _, name = full.partition(".")
        sections[section][name] = value
    made = replace(spec, **sections)  # type: ignore[arg-type]
    Table("", {"search": made})  # validates
    return made


def _run_trials(search: Search, name: str, before: Sequence[Trial], count: int, device: str) -> list[Trial]:
    """Draw a few trials of a row, given the earlier ones, and train them together."""
    optuna = _optuna()
    spaces = {setting: _distribution(optuna, space) for setting, space in search.spaces[name].items()}
    sampler = optuna.samplers.TPESampler(seed=len(before), constant_liar=True)
    study = optuna.create_study(direction="maximize", sampler=sampler)
    for trial in before:
        study.add_trial(optuna.trial.create_trial(params=dict(trial.settings), distributions=spaces, value=trial.value))
    drawn = [dict(study.ask(spaces).params) for _ in range(count)]
    spec = search.table.rows[name]
    values = _values({f"{i}": changed(spec, settings) for i, settings in enumerate(drawn)}, search.table, device)
    return [Trial(name, len(before) + i, settings, values[f"{i}"]) for i, settings in enumerate(drawn)]


def _values(specs: Mapping[str, RunSpec], table: Table, device: str) -> dict[str, float]:
    """The objective that each spec reaches, mean over seeds."""
    reached: dict[str, list[float]] = {name: [] for name in specs}
    for group in plan(Table(table.title, specs, table.objective).runs()):
        scores = []
        for event in run(group, device):
            if isinstance(event, Incident) and event.fatal:
                raise RuntimeError(f"tune: wanted trials in which every learner is scored, got {event}")
            if isinstance(event, Scored):
                scores.append(event.score.numpy())
        value = measure(np.stack(scores, axis=1), stage_tasks(table.suite))[table.objective]
        for lane, one in zip(group.lanes, value.tolist(), strict=True):
            reached[lane.method].append(one)
    return {name: float(np.mean(values)) for name, values in reached.items()}


def _optuna() -> Any:
    try:
        import optuna
    except ModuleNotFoundError:
        raise ValueError("tune: wanted the package optuna, got none: pip install 'crystalrl[tune]'") from None
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna


def _distribution(optuna: Any, space: Any) -> Any:
    if isinstance(space, list):
        return optuna.distributions.CategoricalDistribution(space)
    whole = isinstance(space["low"], int) and isinstance(space["high"], int)
    kind = optuna.distributions.IntDistribution if whole else optuna.distributions.FloatDistribution
    return kind(space["low"], space["high"], log=space.get("log", False))


def _check_space(name: str, space: Any) -> None:
    good = isinstance(space, list) and len(space) > 0
    if isinstance(space, Mapping) and {"low", "high"} <= set(space) <= {"low", "high", "log"}:
        good = space["low"] < space["high"] and (space["low"] > 0 or not space.get("log"))
    if not good:
        raise ValueError(f"{name}: wanted a list, or low < high (both > 0 with log = true), got {space}")


def _described(search: Search) -> Any:
    """Everything the trials depend on, as JSON; not their number, which may be increased later."""
    return json.loads(json.dumps({"table": search.table.to_toml(), "spaces": search.spaces}))
