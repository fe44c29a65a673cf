"""One part of a table as a file: parquet if pyarrow is installed, otherwise .npz with the same columns.

Files are written atomically. Reading executes no code: only parquet and plain arrays are accepted.
"""

from __future__ import annotations

import io
import os
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

Arrays = dict[str, NDArray[Any]]
Kinds = Mapping[str, str]
"""Column → s text, i integer, f float."""

SUFFIXES = (".parquet", ".npz")
_TYPES = {"s": np.str_, "i": np.int32, "f": np.float32}
_LETTERS = {"s": "UO", "i": "i", "f": "f"}
"""NumPy's dtype kinds for each."""


def packed(columns: Mapping[str, Any], kinds: Kinds) -> Arrays:
    """Columns in their stored types; those that `kinds` does not name are floats. All must have the same length."""
    arrays: Arrays = {name: np.asarray(values, _TYPES[kinds.get(name, "f")]) for name, values in columns.items()}
    if len({array.shape for array in arrays.values()}) > 1:
        lengths = ", ".join(f"{name} {array.shape}" for name, array in arrays.items())
        raise ValueError(f"columns: wanted one length, got {lengths}")
    return arrays


def write_part(stem: Path, arrays: Arrays) -> Path:
    """Write `stem`.parquet, or `stem`.npz without pyarrow."""
    parquet = _parquet()
    path = stem.with_name(stem.name + SUFFIXES[parquet is None])
    buffer = io.BytesIO()
    if parquet is None:
        np.savez_compressed(buffer, **arrays)  # type: ignore[arg-type]
    else:
        _write_parquet(parquet, arrays, buffer)
    write_whole(path, buffer.getvalue())
    return path


def read_part(path: Path, kinds: Kinds, more: bool = False) -> Arrays:
    """The columns of a part; with `more`, additional float columns are allowed. Anything else is an error."""
    try:
        content = io.BytesIO(path.read_bytes())
        arrays = _read_npz(content) if path.suffix == ".npz" else _read_parquet(content)
        _check(arrays, kinds, more)
    except Exception as error:  # decoders raise many kinds for damaged files
        wanted = ", ".join(kinds) + (" and numbers" if more else "")
        raise ValueError(f"{path}: wanted a whole part with the columns {wanted}, got {error}") from error
    return {name: array.astype(object) if array.dtype.kind == "U" else array for name, array in arrays.items()}


def same(ours: Arrays, theirs: Arrays) -> bool:
    """Whether two parts hold the same columns and rows."""
    if set(ours) != set(theirs):
        return False
    return all(
        np.array_equal(array, theirs[name], equal_nan=array.dtype.kind == "f" == theirs[name].dtype.kind)
        for name, array in ours.items()
    )


def write_whole(path: Path, content: bytes) -> None:
    """Write a file atomically; it is on disk when this returns."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with temporary.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def has_parquet() -> bool:
    """Whether pyarrow is installed, so that parts are written as parquet."""
    return _parquet() is not None


def _parquet() -> ModuleType | None:
    try:
        from pyarrow import parquet
    except ModuleNotFoundError:
        return None
    return parquet  # type: ignore[no-any-return]


def _write_parquet(parquet: ModuleType, arrays: Arrays, buffer: io.BytesIO) -> None:
    """Dictionary encoding for text and integers, byte-stream split for floats: a quarter smaller. With checksums."""
    import pyarrow

    floats = [name for name, array in arrays.items() if array.dtype.kind == "f"]
    parquet.write_table(
        pyarrow.table({name: pyarrow.array(array) for name, array in arrays.items()}),
        buffer,
        compression="zstd",
        compression_level=9,
        use_dictionary=[name for name in arrays if name not in floats],
        use_byte_stream_split=floats,
        write_statistics=False,
        write_page_checksum=True,
        store_schema=False,
    )


def _read_parquet(content: io.BytesIO) -> Arrays:
    parquet = _parquet()
    if parquet is None:
        raise ValueError("parquet, which needs pyarrow: pip install 'crystalrl[study]'")
    with parquet.ParquetFile(content, page_checksum_verification=True) as file:
        table = file.read(use_threads=False)
    return {name: table.column(name).to_numpy() for name in table.column_names}


def _read_npz(content: io.BytesIO) -> Arrays:
    with np.load(content) as stored:
        if not isinstance(stored, np.lib.npyio.NpzFile):
            raise ValueError("a single array")
        return {name: stored[name] for name in stored.files}


def _check(arrays: Arrays, kinds: Kinds, more: bool) -> None:
    unknown = set(arrays) ^ set(kinds) if not more else set(kinds) - set(arrays)
    if unknown:
        raise ValueError(f"{', '.join(sorted(arrays)) or 'none'}")
    for name, array in arrays.items():
        if array.dtype.kind not in _LETTERS[kinds.get(name, "f")]:
            raise ValueError(f"{name} of type {array.dtype}")
        if array.dtype.kind == "O" and not all(isinstance(value, str) for value in array.tolist()):
            raise ValueError(f"{name} that is not text")
    shapes = {array.shape for array in arrays.values()}
    if len(shapes) != 1 or shapes & {(), (0,)}:
        raise ValueError(f"columns of the shapes {sorted(shapes)}")
