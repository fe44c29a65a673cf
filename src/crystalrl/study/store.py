"""Results on disk: a folder with the spec, the versions, and tables as folders of parquet parts.

Every part holds one lane-batched run and appears whole or not at all, so an interrupted study is continued by starting
it again. `scores.parquet` is written last: a run counts as done once it is there.
"""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch

from crystalrl._version import __version__

TABLES = {
    "curves": {"cell": "s", "method": "s", "seed": "i", "task": "i", "step": "i", "score": "f"},
    "memory": {"cell": "s", "method": "s", "seed": "i", "step": "i", "name": "s", "value": "f"},
    "scores": {"cell": "s", "method": "s", "seed": "i", "after": "i", "task": "i", "score": "f"},
}
"""Columns of each table, in the order they are written; s text, i integer, f float."""

_TYPES = {"s": pa.dictionary(pa.int32(), pa.string()), "i": pa.int64(), "f": pa.float64()}
Columns = Mapping[str, Sequence[Any]]


class Store:
    """Results of one spec. Invariant: `spec.toml` in the folder is the spec of every part."""

    def __init__(self, folder: str | os.PathLike[str], spec: str) -> None:
        self.folder = Path(folder)
        path = self.folder / "spec.toml"
        if path.exists() and path.read_text() != spec:
            raise ValueError(
                f"out: wanted an empty folder or results of this spec, got those of another in {self.folder}"
            )
        if not path.exists() and self.folder.exists() and any(self.folder.iterdir()):
            raise ValueError(f"out: wanted an empty folder or results of this spec, got other files in {self.folder}")
        self.folder.mkdir(parents=True, exist_ok=True)
        _write_text(path, spec)

    def has(self, key: str) -> bool:
        """Whether the run of this key is stored."""
        return self._part("scores", key).exists()

    def write(self, key: str, tables: Mapping[str, Columns], device: str) -> None:
        """Store all tables of one run."""
        _write_text(self.folder / "versions.json", json.dumps(versions(device), indent=1) + "\n")
        for name, columns in TABLES.items():
            part = self._part(name, key)
            part.parent.mkdir(exist_ok=True)
            table = pa.table({c: pa.array(tables[name][c], type=_TYPES[kind]) for c, kind in columns.items()})
            temporary = part.with_suffix(".tmp")
            pq.write_table(table, temporary, compression="zstd")
            temporary.replace(part)

    def _part(self, table: str, key: str) -> Path:
        return self.folder / f"{table}.parquet" / f"part-{key}.parquet"


def read(folder: str | os.PathLike[str], table: str) -> dict[str, np.ndarray[Any, Any]]:
    """All parts of a table: column name → array."""
    parts = sorted((Path(folder) / f"{table}.parquet").glob("part-*.parquet"))
    if not parts:
        raise FileNotFoundError(f"{folder}: wanted results of a study, found no {table}")
    joined = pa.concat_tables([pq.read_table(part) for part in parts], promote_options="permissive")
    return {name: joined[name].to_numpy() for name in joined.column_names}


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


def _write_text(path: Path, text: str) -> None:
    temporary = path.with_suffix(".tmp")
    temporary.write_text(text)
    temporary.replace(path)
