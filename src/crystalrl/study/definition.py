"""A study: rows to compare on the same tasks, in a TOML file.

    title = "…"
    objective = "AP"                # rows that list values are tuned for this metric, on the tuning seeds only
    tuning_seeds = "1000:1016"
    [defaults]                      # any field of RunSpec
    suite = "nav-8"
    [rows.EWC]                      # any field of RunSpec, overriding the defaults
    method = "ewc"
    method_params.strength = [100, 1000, 10000]
    [rows."no gate"]                # an ablation: a copy of another row with changes
    of = "paper"
    params.gate = 0.0
    [paper."no gate"]               # numbers of a paper, shown next to ours
    AP = 0.71

Instead of `[paper.ROW]`, `paper = "metaworld"` takes the numbers of a table in `crystalrl/theory/printed.toml`.

A file may hold several such tables under `[tables.NAME]`. `trials`, `at_once` and `[search.ROW]`, as in `tuning`, say
how `crystalrl tune` searches the settings of rows on the tuning seeds. `[[tasks]]`, as in `task_files`, replaces
`suite`.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib import resources
from pathlib import Path
from typing import Any, TypeVar

from crystalrl.study.budget import capacity_for
from crystalrl.study.metrics import first_pass
from crystalrl.study.plan import stage_order, stage_tasks
from crystalrl.study.registry import check
from crystalrl.study.spec import SECTIONS, RunSpec, parse_seeds, read_toml, spec_from, spec_values, to_toml, unknown
from crystalrl.study.task_files import HIDDEN, TASKS, sequence_from
from crystalrl.suites.tasks import Sequence as TaskSequence

SEARCH = ("trials", "at_once", "search")
"""Keys of a table that only `crystalrl tune` reads."""
OBJECTIVES = ("AP", "before", "adapted")
METRICS = (*OBJECTIVES, "BT", "forgetting", "learned", "area", "zero-shot", "FT random", "task-1 retention")
"""Metrics that may be tested; "before" and "adapted" only for suites that redefine a task."""


Picked = TypeVar("Picked")


@dataclass(frozen=True)
class Table:
    """Rows to compare. Rows that list values also run on the tuning seeds, which are never reported."""

    title: str
    rows: Mapping[str, RunSpec]
    objective: str = "AP"
    tuning_seeds: tuple[int, ...] = ()
    reference: str = ""
    """The row that all others are tested against; empty: the first."""
    family: tuple[str, ...] = ("AP",)
    """Metrics that are tested; Holm's correction covers all rows in all of these metrics."""
    paper: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Numbers of a paper, shown next to ours: row → metric → number."""

    def __post_init__(self) -> None:
        if not self.rows:
            raise ValueError("rows: wanted at least one, got none")
        if self.objective not in OBJECTIVES:
            raise ValueError(unknown("objective", self.objective, set(OBJECTIVES)))
        if self.reference and self.reference not in self.rows:
            raise ValueError(unknown("reference", self.reference, set(self.rows)))
        for name, spec in self.rows.items():
            try:
                check(spec)
                stage_order(spec.suite, max(spec.orders - 1, spec.order))
            except ValueError as error:
                raise ValueError(f"rows.{name}: {error}") from error
            shared = set(spec.seeds) & set(self.tuning_seeds)
            if shared:
                raise ValueError(f"tuning_seeds: wanted seeds that are not reported, got {sorted(shared)} in both")
        if any(spec.suite != self.suite for spec in self.rows.values()):
            raise ValueError("rows: wanted one suite for all, got several")
        self._check_family()

    def _check_family(self) -> None:
        tasks = stage_tasks(self.suite)
        known = METRICS if first_pass(tasks) < len(tasks) else [m for m in METRICS if m not in OBJECTIVES[1:]]
        for metric in self.family:
            if metric not in known:
                raise ValueError(unknown("family", metric, set(known)))
        if not self.family:
            raise ValueError("family: wanted at least one metric, got none")
        self._check_paper()

    def _check_paper(self) -> None:
        for row, numbers in self.paper.items():
            if row not in self.rows:
                raise ValueError(unknown("paper", row, set(self.rows)))
            for metric, value in numbers.items():
                if metric not in METRICS:
                    raise ValueError(unknown(f"paper.{row}", metric, set(METRICS)))
                if isinstance(value, bool) or not isinstance(value, int | float):
                    raise ValueError(f"paper.{row}.{metric}: wanted a number, got {value!r}")

    @property
    def suite(self) -> str | TaskSequence:
        return next(iter(self.rows.values())).suite

    def runs(self) -> dict[str, RunSpec]:
        """The rows to run, with the capacity that fits a budget and, for rows to be tuned, with the tuning seeds."""
        return {name: replace(capacity_for(spec), seeds=self._seeds(spec)) for name, spec in self.rows.items()}

    def tuned(self, spec: RunSpec) -> bool:
        """Whether a row's values are chosen on the tuning seeds."""
        return bool(self.tuning_seeds) and spec.grid == "product" and len(spec.variants()) > 1

    def _seeds(self, spec: RunSpec) -> tuple[int, ...]:
        return (*spec.seeds, *self.tuning_seeds) if self.tuned(spec) else spec.seeds

    def to_toml(self) -> str:
        """The table as the text of a TOML file."""
        head: dict[str, Any] = {"title": self.title, "objective": self.objective, "reference": self.reference}
        head["tuning_seeds"] = list(self.tuning_seeds)
        if self.family != ("AP",):
            head["family"] = list(self.family)
        if self.paper:
            head["paper"] = {row: dict(numbers) for row, numbers in self.paper.items()}
        own = self.suite.values() if isinstance(self.suite, TaskSequence) else {}
        return to_toml({**head, **own, "rows": {name: spec_values(spec) for name, spec in self.rows.items()}})


def table_from(values: Mapping[str, Any]) -> Table:
    """A table from TOML values."""
    known = {"title", "objective", "tuning_seeds", "reference", "family", "paper", "defaults", "rows", TASKS, HIDDEN}
    known |= set(SEARCH)
    for name in values:
        if name not in known:
            raise ValueError(unknown("study", name, known))
    defaults, given = values.get("defaults", {}), values.get("rows", {})
    own = _own_tasks({**defaults, **values})
    defaults = {name: value for name, value in defaults.items() if name not in (TASKS, HIDDEN)}
    rows = {}
    for name in given:
        try:
            fields = {**defaults, **_inherited(given, name)}
            if own and "suite" in fields:
                raise ValueError(f"suite: wanted none, because there are [[tasks]], got {fields['suite']!r}")
            rows[name] = spec_from({**fields, **own})
        except (TypeError, ValueError) as error:
            raise ValueError(f"rows.{name}: {error}") from error
    tuning = parse_seeds(values.get("tuning_seeds", ()))
    named = {name: values[name] for name in ("objective", "reference", "paper") if name in values}
    if isinstance(values.get("paper"), str):
        named["paper"] = _printed(values["paper"], rows)
    if "family" in values:
        named["family"] = tuple(values["family"])
    return Table(values.get("title", ""), rows, tuning_seeds=tuning, **named)


def _printed(name: str, rows: Mapping[str, RunSpec]) -> dict[str, dict[str, float]]:
    """What a table of the paper says about these rows, in the metrics that a study has."""
    from crystalrl.theory.printed import fractions, tables

    if name not in tables():
        raise ValueError(unknown("paper", name, set(tables())))
    said = {row: fractions(name)[row] for row in rows if row in tables()[name].rows}
    return {row: {metric: number for metric, number in own.items() if metric in METRICS} for row, own in said.items()}


def _own_tasks(values: Mapping[str, Any]) -> dict[str, TaskSequence]:
    """The suite of a table with [[tasks]] or [[defaults.tasks]]; empty if it has none."""
    if TASKS not in values and HIDDEN in values:
        raise ValueError("hidden: wanted only with [[tasks]], got it without")
    return {"suite": sequence_from(values)} if TASKS in values else {}


def _inherited(rows: Mapping[str, Any], name: str, heirs: tuple[str, ...] = ()) -> dict[str, Any]:
    """The fields of a row, merged into those of the row it is `of`; sections are merged key by key."""
    own = dict(rows[name])
    parent = own.pop("of", None)
    if parent is None:
        return own
    if parent not in rows or parent in (name, *heirs):
        raise ValueError(unknown("of", str(parent), set(rows) - {name, *heirs}))
    base = _inherited(rows, parent, (*heirs, name))
    merged = {section: {**base.get(section, {}), **own.get(section, {})} for section in SECTIONS}
    return {**base, **own, **{section: settings for section, settings in merged.items() if settings}}


def load_study(name: str, tables: str = "") -> dict[str, Table]:
    """The tables of a study file or of a built-in study; the key is "" for a file with a single table.

    `tables`: see `pick`. Only what these tables need has to be installed.
    """
    return {key: table_from(values) for key, values in pick(study_values(name), tables).items()}


def study_values(name: str) -> dict[str, dict[str, Any]]:
    """The TOML values of every table of a study."""
    path = Path(name)
    if path.suffix == ".toml":
        values = read_toml(path)
    else:
        if name not in study_names():
            raise ValueError(f"{unknown('study', name, set(study_names()))}; or a .toml file")
        values = tomllib.loads((resources.files("crystalrl") / "studies" / f"{name}.toml").read_text())
    if "tables" not in values:
        return {"": values}
    shared = {name: values[name] for name in (TASKS, HIDDEN) if name in values}
    return {key: {**shared, **table} for key, table in values["tables"].items()}


def pick(tables: Mapping[str, Picked], names: str) -> dict[str, Picked]:
    """Tables of a study, or what belongs to each, by their names, separated by commas; all if there are no names."""
    wanted = [name for name in names.split(",") if name] or list(tables)
    for name in wanted:
        if name not in tables:
            raise ValueError(unknown("tables", name, set(tables)))
    return {name: tables[name] for name in wanted}


def study_names() -> list[str]:
    """Names of the built-in studies, such as demo or paper/metaworld."""
    folder = resources.files("crystalrl") / "studies"
    inner = [(f"{part.name}/", part) for part in folder.iterdir() if part.is_dir() and part.name != "__pycache__"]
    found = [(prefix, entry.name) for prefix, part in [("", folder), *inner] for entry in part.iterdir()]
    return sorted(prefix + name.removesuffix(".toml") for prefix, name in found if name.endswith(".toml"))
