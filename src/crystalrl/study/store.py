"""Results on disk: a folder with the spec, the versions, and one folder of parts per table.

    spec.toml  versions.json
    scores.parquet/part-KEY.parquet    cell, method, seed, after, task, score: the learning matrix
    curves.parquet/part-KEY.parquet    cell, method, seed, task, step, score: on the task being learnt
    memory.parquet/part-KEY.parquet    cell, method, seed, step, task, nbytes and what each consolidation reports

Tasks and seeds count from 0; `pandas.read_parquet("scores.parquet")` reads a whole table. Every lane-batched run adds
one part to each table, its scores last: a run counts once they are there, so an interrupted study is continued by
starting it again. What an unfinished run needs to go on is in checkpoints/KEY.safetensors. Where pyarrow is missing
parts are .npz files with the same columns; both kinds may lie side by side, and `as_parquet` (which `crystalrl report`
calls) turns one into the other.
"""

from __future__ import annotations

import json
import os
import platform
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from crystalrl._version import __version__
from crystalrl.study.table_files import SUFFIXES, Arrays, has_parquet, packed, read_part, same, write_part, write_whole

_LANE = {"cell": "s", "method": "s", "seed": "i"}
TABLES = {
    "memory": {**_LANE, "step": "i", "task": "i", "nbytes": "f"},
    "curves": {**_LANE, "task": "i", "step": "i", "score": "f"},
    "scores": {**_LANE, "after": "i", "task": "i", "score": "f"},
}
"""Columns of each table, in the order they are written; s text, i integer, f float. Memory has more: all floats."""

Columns = Mapping[str, Any]


class Store:
    """Results of one spec. Invariant: `spec.toml` in the folder is the spec of every part."""

    def __init__(self, folder: str | os.PathLike[str], spec: str) -> None:
        self.folder = Path(folder)
        path = self.folder / "spec.toml"
        if path.exists() and path.read_text() != spec:
            differ = ", ".join(_differences(tomllib.loads(path.read_text()), tomllib.loads(spec)))
            raise ValueError(
                f"out: wanted results of this spec, got those of another in {self.folder}: {differ} differ"
            )
        if not path.exists() and self.folder.exists() and any(file.suffix != ".tmp" for file in self.folder.iterdir()):
            raise ValueError(f"out: wanted an empty folder or results of this spec, got other files in {self.folder}")
        self.folder.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            write_whole(path, spec.encode())

    def has(self, key: str) -> bool:
        """Whether the run of this key is stored."""
        return any((_place(self.folder, "scores") / f"part-{key}{suffix}").exists() for suffix in SUFFIXES)

    def refuse_stored(self, lanes: Iterable[tuple[str, int]]) -> None:
        """Raise if a part that can be read here holds any of these cells and seeds already."""
        held = _Holders()
        for path in _parts(self.folder, "scores").values():
            if path.suffix == ".npz" or has_parquet():
                held.add(path, _read("scores", path))
        held.refuse("the run to come", set(lanes))

    def write(self, key: str, tables: Mapping[str, Columns], device: str) -> None:
        """Store all tables of one run. What is stored already must be the same."""
        arrays = {table: packed(tables[table], kinds) for table, kinds in TABLES.items()}
        if self.has(key):
            path = _parts(self.folder, "scores")[key]
            if not same(_read("scores", path), arrays["scores"]):
                raise ValueError(f"{path}: wanted the same scores as those of this run, got others")
            return
        note_versions(self.folder / "versions.json", versions(device))
        for table in TABLES:
            place = _place(self.folder, table)
            place.mkdir(exist_ok=True)
            for suffix in SUFFIXES:  # what an interrupted run may have left
                (place / f"part-{key}{suffix}").unlink(missing_ok=True)
            write_part(place / f"part-{key}", arrays[table])


def read(folder: str | os.PathLike[str], table: str) -> Arrays:
    """All parts of a table: column name → array; NaN where a part lacks a column."""
    keys = _parts(folder, "scores")
    if not keys:
        raise FileNotFoundError(f"{folder}: wanted results of a study, found none")
    parts = _parts(folder, table)
    held, loaded = _Holders(), []
    for key, finished in keys.items():
        if key not in parts:
            raise FileNotFoundError(f"{_place(folder, table)}: wanted a part for {finished}, found none")
        loaded.append(_read(table, parts[key]))
        held.add(parts[key], loaded[-1])
    names = dict.fromkeys(name for columns in loaded for name in columns)
    return {name: np.concatenate([_column(columns, name) for columns in loaded]) for name in names}


def as_parquet(folder: str | os.PathLike[str]) -> int:
    """Turn every .npz part into parquet; how many there were. Does nothing where pyarrow is missing."""
    if not has_parquet():
        return 0
    found = [(table, path) for table in TABLES for path in sorted(_place(folder, table).glob("part-*.npz"))]
    for table, path in found:
        _parts(folder, table)  # refuses another parquet part of the same run
        write_part(path.with_suffix(""), packed(_read(table, path), TABLES[table]))
        path.unlink()
    return len(found)


class _Holders:
    """Which part holds which cell and seed. Invariant: never two."""

    def __init__(self) -> None:
        self.of: dict[tuple[str, int], Path] = {}

    def add(self, path: Path, columns: Arrays) -> None:
        """Note what a part holds; raise if another one does, too."""
        lanes = set(zip(columns["cell"].tolist(), columns["seed"].tolist(), strict=True))
        self.refuse(str(path), lanes)
        self.of.update(dict.fromkeys(lanes, path))

    def refuse(self, what: str, lanes: set[tuple[str, int]]) -> None:
        for cell, seed in sorted(lanes & set(self.of)):
            raise ValueError(
                f"{what}: wanted each cell and seed once, got {cell!r}, seed {seed}, as in {self.of[cell, seed]}"
            )


def _place(folder: str | os.PathLike[str], table: str) -> Path:
    return Path(folder) / f"{table}.parquet"


def _parts(folder: str | os.PathLike[str], table: str) -> dict[str, Path]:
    """Key → file of every part, in order. One run in both kinds is one part, if they say the same."""
    found: dict[str, Path] = {}
    place = _place(folder, table)
    for path in sorted(place.iterdir()) if place.is_dir() else []:
        if path.name.startswith("."):
            continue
        if path.suffix not in SUFFIXES or not path.name.startswith("part-"):
            raise ValueError(f"{path}: wanted nothing but parts such as part-KEY.parquet in {place}, got this file")
        key = path.stem.removeprefix("part-")
        if key in found and not same(_read(table, found[key]), _read(table, path)):
            raise ValueError(f"{path}: wanted the same as in {found[key].name}, got other contents")
        found[key] = path
    return found


def _read(table: str, path: Path) -> Arrays:
    return read_part(path, TABLES[table], more=table == "memory")


def _column(columns: Arrays, name: str) -> Any:
    return columns[name] if name in columns else np.full(len(columns["cell"]), np.nan, np.float32)


def versions(device: str) -> dict[str, str]:
    """What the results were computed with."""
    here = device.startswith("cuda") and torch.cuda.is_available()  # a Ray cluster's GPUs may be elsewhere
    name = torch.cuda.get_device_name() if here else platform.processor() or platform.machine()
    return {
        "crystalrl": __version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "device": f"{device} ({name})",
    }


def note_versions(path: Path, now: Mapping[str, str]) -> None:
    """Add to what is noted there: runs of one study may come from several machines."""
    before = json.loads(path.read_text()) if path.exists() else {}
    noted = {name: [seen for seen in before.get(name, "").split(" and ") if seen] for name in now}
    every = {name: " and ".join(dict.fromkeys([*noted[name], value])) for name, value in now.items()}
    if every != before:
        write_whole(path, (json.dumps(every, indent=1) + "\n").encode())


def _differences(a: Mapping[str, Any], b: Mapping[str, Any], prefix: str = "") -> list[str]:
    """Dotted names of what two specs do not share."""
    found = []
    for name in dict.fromkeys([*a, *b]):
        ours, theirs = a.get(name), b.get(name)
        if isinstance(ours, Mapping) and isinstance(theirs, Mapping):
            found += _differences(ours, theirs, f"{prefix}{name}.")
        elif ours != theirs:
            found.append(f"{prefix}{name}")
    return found
