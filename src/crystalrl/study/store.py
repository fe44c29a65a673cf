"""Results on disk: a folder with the spec, the versions, and one folder of parts for each table.

    spec.toml  versions.json
    failures/KEY.json                  learners that an environment ended, and why; they have no rows in the tables
    scores.parquet/part-KEY.parquet    cell, method, seed, after, task, score: the learning matrix
    curves.parquet/part-KEY.parquet    cell, method, seed, task, step, score: on the current task
    memory.parquet/part-KEY.parquet    cell, method, seed, step, task, nbytes and the report of each consolidation
    runs/KEY.json                      time, machine, commit and versions of a run; see `provenance`

Memories with phases also have histograms.parquet, followed.parquet and contents.parquet: see `DETAILS`.
Tasks and seeds count from 0. All parts of a table have the same columns, so `pandas.read_parquet("scores.parquet")`
reads a whole table; `crystalrl.results.load` reads all tables. Every lane-batched run adds
one part to each table, the scores last: a run is complete once its scores are stored, so an interrupted study continues
when it is started again. Checkpoints of unfinished runs are in checkpoints/KEY.safetensors. Without pyarrow, parts are
.npz files with the same columns; a folder may contain both formats. `as_parquet` (which `crystalrl report` calls)
converts .npz to parquet, and adds columns that parts of older versions lack.
"""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from crystalrl.memory.crystal.report import NAMES
from crystalrl.study.schema import ALL, TABLES
from crystalrl.study.spec import read_toml
from crystalrl.study.table_files import SUFFIXES, Arrays, has_parquet, packed, read_part, same, write_part, write_whole
from crystalrl.study.versions import note_versions, versions

Columns = Mapping[str, Any]
Failed = dict[str, Any]
"""A learner that failed: {cell, seed, what}."""


class Store:
    """Results of one spec. Invariant: `spec.toml` in the folder is the spec of all parts."""

    def __init__(self, folder: str | os.PathLike[str], spec: str) -> None:
        self.folder = Path(folder)
        path = self.folder / "spec.toml"
        self.new = not path.exists()
        """Whether this object created the folder's spec."""
        self._made = [place for place in (self.folder, *self.folder.parents) if not place.exists()]
        """Folders that this object created, the innermost first."""
        if self.new:
            self._refuse_other_files()
            self.folder.mkdir(parents=True, exist_ok=True)
            write_whole(path, spec.encode())
        elif path.read_text() != spec and (others := _differences(read_toml(path), tomllib.loads(spec))):
            differ = ", ".join(others)
            raise ValueError(
                f"out: wanted results of this spec, got those of another in {self.folder}: {differ} differ; choose "
                f"another folder with --out, continue the other spec with `crystalrl resume {self.folder}`, or delete "
                "the folder"
            )

    def _refuse_other_files(self) -> None:
        if self.folder.exists() and any(file.suffix != ".tmp" for file in self.folder.iterdir()):
            raise ValueError(
                f"out: wanted an empty folder or results of this spec, got other files in {self.folder}; choose "
                "another folder with --out"
            )

    def remove_if_new(self) -> None:
        """Remove the spec if this object wrote it and nothing else is stored there, and the folders made for it."""
        if not (self.new and [path.name for path in self.folder.glob("*")] == ["spec.toml"]):
            return
        (self.folder / "spec.toml").unlink()
        for place in self._made:
            if any(place.iterdir()):
                break
            place.rmdir()

    def has(self, key: str) -> bool:
        """Whether the run with this key is stored."""
        return any((_place(self.folder, "scores") / f"part-{key}{suffix}").exists() for suffix in SUFFIXES)

    def refuse_stored(self, lanes: Iterable[Held]) -> None:
        """Raise if a readable part already holds any of these cells, seeds and stages."""
        held = _Holders()
        for path in stored_parts(self.folder, "scores").values():
            if path.suffix == ".npz" or has_parquet():
                held.add(path, _read("scores", path))
        held.refuse("the next run", set(lanes))

    def failures(self) -> list[Failed]:
        """All learners that failed."""
        files = sorted((self.folder / "failures").glob("*.json"))
        return [failed for path in files for failed in json.loads(path.read_text())]

    def write_failures(self, key: str, failed: Sequence[Failed]) -> None:
        """Record which learners of a run failed, in place of what was recorded before."""
        path = self.folder / "failures" / f"{key}.json"
        if not failed:
            path.unlink(missing_ok=True)
            return
        path.parent.mkdir(exist_ok=True)
        write_whole(path, (json.dumps(list(failed), indent=1, ensure_ascii=False) + "\n").encode())

    def write(self, key: str, tables: Mapping[str, Columns], device: str) -> None:
        """Store all tables of one run. If it is already stored, the scores must be equal."""
        given = {table: kinds for table, kinds in ALL.items() if table in TABLES or len(tables.get(table, {}))}
        arrays = {table: packed(_complete(table, tables[table]), kinds) for table, kinds in given.items()}
        if self.has(key):
            path = stored_parts(self.folder, "scores")[key]
            if not same(_read("scores", path), arrays["scores"]):
                raise ValueError(f"{path}: wanted the same scores as those of this run, got others")
            return
        note_versions(self.folder / "versions.json", versions(device))
        for table in given:
            place = _place(self.folder, table)
            place.mkdir(exist_ok=True)
            for suffix in SUFFIXES:  # left by an interrupted run
                (place / f"part-{key}{suffix}").unlink(missing_ok=True)
            write_part(place / f"part-{key}", arrays[table])


def read(folder: str | os.PathLike[str], table: str, problems: list[str] | None = None) -> Arrays:
    """All parts of a table: column name → array; NaN if a part lacks a column.

    problems: list to which the errors of unreadable parts are added, which are left out; None: they are raised.
    """
    keys = stored_parts(folder, "scores", problems)
    if not keys:
        raise FileNotFoundError(f"{folder}: wanted results of a study, found none")
    parts = keys if table == "scores" else stored_parts(folder, table, problems)
    held, loaded = _Holders(), []
    for key, finished in keys.items():
        try:
            if key not in parts:
                raise FileNotFoundError(f"{_place(folder, table)}: wanted a part for {finished}, found none")
            part = _read(table, parts[key])
            held.add(parts[key], part)
        except (ValueError, OSError) as error:
            if problems is None:
                raise
            problems.append(str(error))
        else:
            loaded.append(part)
    return joined(loaded)


def read_details(folder: str | os.PathLike[str], table: str, problems: list[str]) -> Arrays:
    """A table of `DETAILS`: all its readable parts of finished runs; empty if there are none, as in older results."""
    loaded, finished = [], stored_parts(folder, "scores", problems)
    for key, path in stored_parts(folder, table, problems).items():
        try:
            loaded += [_read(table, path)] if key in finished else []
        except ValueError as error:
            problems.append(str(error))
    return joined(loaded)


def joined(parts: Sequence[Columns]) -> Arrays:
    """Parts of a table one below the other; NaN where a part lacks a column."""
    names = dict.fromkeys(name for columns in parts for name in columns)
    return {name: np.concatenate([_column(columns, name) for columns in parts]) for name in names}


def as_parquet(folder: str | os.PathLike[str]) -> int:
    """Convert all .npz parts to parquet and return their number; 0 without pyarrow. Then all parts have one schema."""
    if not has_parquet():
        return 0
    found = [(table, path) for table in ALL for path in sorted(_place(folder, table).glob("part-*.npz"))]
    for table, path in found:
        stored_parts(folder, table)  # refuses a parquet part of the same run with other contents
        write_part(path.with_suffix(""), packed(_complete(table, _read(table, path)), ALL[table]))
        path.unlink()
    _unify(folder, "memory")
    return len(found)


def _unify(folder: str | os.PathLike[str], table: str) -> None:
    """Rewrite the parts that lack a column which another part has, or which this version would write."""
    parts = {path: _read(table, path) for path in stored_parts(folder, table).values()}
    names = dict.fromkeys(name for columns in parts.values() for name in _complete(table, columns))
    for path, columns in parts.items():
        if list(columns) != list(names):
            write_part(path.with_suffix(""), packed({name: _column(columns, name) for name in names}, TABLES[table]))


def _complete(table: str, columns: Columns) -> dict[str, Any]:
    """The columns of a part and, in the memory table, NaN for what its memory does not report; in a fixed order."""
    first = [*ALL[table], *(NAMES if table == "memory" else ())]
    return {name: _column(columns, name) for name in dict.fromkeys([*first, *columns])}


Held = tuple[str, int, int]
"""Cell, seed and stage. Learners from scratch train on one stage each, and those of a cell may be in several parts."""


class _Holders:
    """Which part holds which stage of which cell and seed. Invariant: none is held by two parts."""

    def __init__(self) -> None:
        self.of: dict[Held, Path] = {}

    def add(self, path: Path, columns: Arrays) -> None:
        """Register what a part holds; raise if another part holds it, too."""
        lanes = set(zip(*(columns[name].tolist() for name in ("cell", "seed", "task")), strict=True))
        self.refuse(str(path), lanes)
        self.of.update(dict.fromkeys(lanes, path))

    def refuse(self, what: str, lanes: set[Held]) -> None:
        for held in sorted(lanes & set(self.of)):
            cell, seed, _ = held
            raise ValueError(
                f"{what}: wanted each cell and seed once, got {cell!r}, seed {seed}, as in {self.of[held]}"
            )


def result_folders(folder: Path) -> list[Path]:
    """The folder itself if it holds results, otherwise the results folders directly below it."""
    found = [folder] if (folder / "spec.toml").is_file() else sorted(path.parent for path in folder.glob("*/spec.toml"))
    if not found:
        raise FileNotFoundError(f"{folder}: wanted a folder of results, found no spec.toml in it or below")
    return found


def scored_folders(folder: Path) -> list[Path]:
    """The results folders that hold scores; all results folders if none does."""
    found = result_folders(folder)
    return [inner for inner in found if (inner / "scores.parquet").is_dir()] or found


def _place(folder: str | os.PathLike[str], table: str) -> Path:
    return Path(folder) / f"{table}.parquet"


def stored_parts(folder: str | os.PathLike[str], table: str, problems: list[str] | None = None) -> dict[str, Path]:
    """Key → file of every part, in order. A run in both formats counts once, if the contents are equal; `problems` as
    in `read`.
    """
    found: dict[str, Path] = {}
    place = _place(folder, table)
    for path in sorted(place.iterdir()) if place.is_dir() else []:
        if path.name.startswith("."):
            continue
        if path.suffix not in SUFFIXES or not path.name.startswith("part-"):
            said = f"{path}: wanted nothing but parts such as part-KEY.parquet in {place}, got this file"
            if problems is None:
                raise ValueError(said)
            problems.append(said)
            continue
        key = path.stem.removeprefix("part-")
        if key in found and not same(_read(table, found[key]), _read(table, path)):
            raise ValueError(f"{path}: wanted the same as in {found[key].name}, got other contents")
        found[key] = path
    return found


def _read(table: str, path: Path) -> Arrays:
    return read_part(path, ALL[table], more=table in ("memory", "contents"))


def _column(columns: Columns, name: str) -> Any:
    return columns[name] if name in columns else np.full(len(columns["cell"]), np.nan, np.float32)


def _differences(a: Mapping[str, Any], b: Mapping[str, Any], prefix: str = "") -> list[str]:
    """Dotted names of the entries in which two specs differ."""
    found = []
    for name in dict.fromkeys([*a, *b]):
        ours, theirs = a.get(name), b.get(name)
        if isinstance(ours, Mapping) and isinstance(theirs, Mapping):
            found += _differences(ours, theirs, f"{prefix}{name}.")
        elif ours != theirs:
            found.append(f"{prefix}{name}")
    return found
