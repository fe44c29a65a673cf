"""Results on disk: a folder with the spec, the versions, and one compressed file of tables per lane-batched run.

A file `part-KEY.npz` appears whole or not at all, so an interrupted study is continued by starting it again. Only NumPy
is needed to read one: `numpy.load(path)["scores.score"]`; text is stored as numbers into the array `….names`.
"""

from __future__ import annotations

import io
import json
import os
import platform
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from crystalrl._version import __version__

TABLES = {
    "scores": {"cell": "s", "method": "s", "seed": "i", "after": "i", "task": "i", "score": "f"},
    "curves": {"cell": "s", "method": "s", "seed": "i", "task": "i", "step": "i", "score": "f"},
    "memory": {"cell": "s", "method": "s", "step": "i", "name": "s", "value": "f"},
}
"""Columns of each table; s text, i integer, f float. The memory's numbers are means over the learners of a cell."""

_TYPES = {"i": np.int32, "f": np.float32}
Columns = Mapping[str, Sequence[Any]]
Arrays = dict[str, NDArray[Any]]


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
            _write(path, spec.encode())

    def has(self, key: str) -> bool:
        """Whether the run of this key is stored."""
        return self._part(key).exists()

    def write(self, key: str, tables: Mapping[str, Columns], device: str) -> None:
        """Store all tables of one run."""
        _write(self.folder / "versions.json", (json.dumps(versions(device), indent=1) + "\n").encode())
        arrays: Arrays = {}
        for table, columns in TABLES.items():
            for column, kind in columns.items():
                arrays |= _packed(f"{table}.{column}", tables[table][column], kind)
        buffer = io.BytesIO()
        np.savez_compressed(buffer, **arrays)  # type: ignore[arg-type]
        _write(self._part(key), buffer.getvalue())

    def _part(self, key: str) -> Path:
        return self.folder / f"part-{key}.npz"


def read(folder: str | os.PathLike[str], table: str) -> Arrays:
    """All parts of a table: column name → array."""
    parts = sorted(Path(folder).glob("part-*.npz"))
    if not parts:
        raise FileNotFoundError(f"{folder}: wanted results of a study, found none")
    loaded = [_unpacked(part, table) for part in parts]
    return {column: np.concatenate([columns[column] for columns in loaded]) for column in TABLES[table]}


def _packed(name: str, values: Sequence[Any], kind: str) -> Arrays:
    if kind != "s":
        return {name: np.asarray(values, dtype=_TYPES[kind])}
    names, place = np.unique(np.asarray(values, dtype=np.str_), return_inverse=True)
    return {name: place.astype(np.int16), f"{name}.names": names}


def _unpacked(part: Path, table: str) -> Arrays:
    with np.load(part) as stored:
        return {column: _column(stored, f"{table}.{column}", kind) for column, kind in TABLES[table].items()}


def _column(stored: Any, name: str, kind: str) -> NDArray[Any]:
    if kind == "s":
        return np.asarray(stored[f"{name}.names"].astype(object)[stored[name]])
    return np.asarray(stored[name].astype(np.int64 if kind == "i" else np.float64))


def versions(device: str) -> dict[str, str]:
    """What the results were computed with."""
    name = torch.cuda.get_device_name() if device.startswith("cuda") else platform.processor() or platform.machine()
    return {
        "crystalrl": __version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "device": f"{device} ({name})",
    }


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


def _write(path: Path, content: bytes) -> None:
    """The file as a whole or not at all."""
    temporary = path.with_suffix(f".{os.getpid()}.tmp")
    temporary.write_bytes(content)
    temporary.replace(path)
