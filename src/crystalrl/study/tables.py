"""A study: rows to compare on the same tasks, in a TOML file.

    title = "…"
    objective = "AP"                # a row that lists values is tuned by this metric, on the tuning seeds only
    tuning_seeds = "1000:1016"
    [defaults]                      # any field of RunSpec
    suite = "nav-8"
    [rows.EWC]                      # any field of RunSpec, on top of the defaults
    method = "ewc"
    method_params.strength = [100, 1000, 10000]

A file may hold several such tables under `[tables.NAME]`.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from typing import Any

from crystalrl.study.catalogue import check
from crystalrl.study.spec import RunSpec, parse_seeds, spec_from, spec_values, to_toml, unknown

OBJECTIVES = ("AP", "before", "adapted")


@dataclass(frozen=True)
class Table:
    """Rows to compare. Rows that list values also run on the tuning seeds, which reports never show."""

    title: str
    rows: Mapping[str, RunSpec]
    objective: str = "AP"
    tuning_seeds: tuple[int, ...] = ()
    reference: str = ""
    """The row that the others are tested against; empty: the first."""

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
            except ValueError as error:
                raise ValueError(f"rows.{name}: {error}") from error
            shared = set(spec.seeds) & set(self.tuning_seeds)
            if shared:
                raise ValueError(f"tuning_seeds: wanted others than the reported ones, got {sorted(shared)} in both")
        if len({spec.suite for spec in self.rows.values()}) > 1:
            raise ValueError("rows: wanted one suite for all, got several")

    @property
    def suite(self) -> str:
        return next(iter(self.rows.values())).suite

    def runs(self) -> dict[str, RunSpec]:
        """The rows as they are run: with the tuning seeds where there is something to tune."""
        return {
            name: replace(spec, seeds=(*spec.seeds, *self.tuning_seeds)) if len(spec.cells()) > 1 else spec
            for name, spec in self.rows.items()
        }

    def to_toml(self) -> str:
        """The table as a file."""
        head: dict[str, Any] = {"title": self.title, "objective": self.objective, "reference": self.reference}
        head["tuning_seeds"] = list(self.tuning_seeds)
        return to_toml({**head, "rows": {name: spec_values(spec) for name, spec in self.rows.items()}})


def table_from(values: Mapping[str, Any]) -> Table:
    """A table from TOML values."""
    known = {"title", "objective", "tuning_seeds", "reference", "defaults", "rows"}
    for name in values:
        if name not in known:
            raise ValueError(unknown("study", name, known))
    defaults = values.get("defaults", {})
    rows = {}
    for name, given in values.get("rows", {}).items():
        try:
            rows[name] = spec_from({**defaults, **given})
        except (TypeError, ValueError) as error:
            raise ValueError(f"rows.{name}: {error}") from error
    tuning = parse_seeds(values.get("tuning_seeds", ()))
    named = {name: values[name] for name in ("objective", "reference") if name in values}
    return Table(values.get("title", ""), rows, tuning_seeds=tuning, **named)


def load_study(name: str) -> dict[str, Table]:
    """The tables of a study file, or of a study that comes with the library; key "" for a file with a single one."""
    path = Path(name)
    if path.suffix == ".toml":
        if not path.is_file():
            raise ValueError(f"study: no file {path}")
        text = path.read_text()
    else:
        if name not in study_names():
            raise ValueError(f"{unknown('study', name, set(study_names()))}; or a .toml file")
        text = (resources.files("crystalrl") / "studies" / f"{name}.toml").read_text()
    values = tomllib.loads(text)
    if "tables" not in values:
        return {"": table_from(values)}
    return {key: table_from(table) for key, table in values["tables"].items()}


def pick(tables: Mapping[str, Table], names: str) -> dict[str, Table]:
    """Some tables of a study by their names, separated by commas; all, if none is named."""
    wanted = [name for name in names.split(",") if name] or list(tables)
    for name in wanted:
        if name not in tables:
            raise ValueError(unknown("tables", name, set(tables)))
    return {name: tables[name] for name in wanted}


def study_names() -> list[str]:
    """Studies that come with the library."""
    folder = resources.files("crystalrl") / "studies"
    return sorted(entry.name.removesuffix(".toml") for entry in folder.iterdir() if entry.name.endswith(".toml"))
