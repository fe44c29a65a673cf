"""What can be known about the inside of memories: from the tables of a run, or from the file of a memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from crystalrl.memory.base import load_memory
from crystalrl.memory.crystal.report import NAMES, health
from crystalrl.params import CrystalParams
from crystalrl.study.budget import capacity_for
from crystalrl.study.definition import table_from
from crystalrl.study.details import states
from crystalrl.study.partial import unfinished
from crystalrl.study.plan import stage_order, stage_steps
from crystalrl.study.registry import MEMORIES
from crystalrl.study.schema import DETAILS
from crystalrl.study.spec import RunSpec, read_toml
from crystalrl.study.store import joined, read, read_details, stored_parts
from crystalrl.study.table_files import Arrays

MOST = 5000
"""Experiences of a memory's file that are shown."""
NOT_STORED = "the inside of its memories was not stored (no memory.parquet): results may be published without it"


@dataclass(frozen=True)
class Inspected:
    """The memory of one learner, over time or at one moment. Tables that are not known are empty."""

    name: str
    params: CrystalParams
    capacity: int
    stage_steps: tuple[int, ...] = ()
    """Environment steps of every task, in training order; unknown for a file."""
    memory: Arrays | None = None
    """Reports of its consolidations."""
    histograms: Arrays | None = None
    followed: Arrays | None = None
    contents: Arrays | None = None
    frames: NDArray[Any] | None = None
    """Observations [n, height, width, …] of the contents, where they are images."""
    stored: int = 0
    """Experiences that it holds, of which the contents are a part."""
    warnings: tuple[str, ...] = ()
    """Likely problems, in plain language."""

    @property
    def starts(self) -> tuple[float, ...]:
        """Environment steps at which tasks begin, without the first."""
        return tuple(float(at) for at in np.cumsum(self.stage_steps)[:-1])


def inspect_run(folder: str | Path, row: str = "") -> tuple[list[Inspected], list[str]]:
    """The memories of the first seed of every cell that has phases, and what could not be read.

    row: only this row of the study. Runs that are not finished are shown as of their last checkpoint.
    """
    folder, problems = Path(folder), list[str]()
    table = table_from(read_toml(folder / "spec.toml"))
    if row and row not in table.rows:
        raise ValueError(f"row: wanted one of {', '.join(table.rows)}, got {row!r}")
    tables = _tables(folder, problems)
    found = []
    for name, spec in table.rows.items():
        if spec.memory == "crystal" and row in ("", name):
            found += [one for cell, own in _cells(name, spec) if (one := _of_cell(tables, cell, own)) is not None]
    return found, problems


def _tables(folder: Path, problems: list[str]) -> dict[str, Arrays]:
    """All tables about memories, with those of unfinished runs."""
    partial = [run.tables for run in unfinished(folder)]
    tables: dict[str, Arrays] = {}
    if not partial and stored_parts(folder, "scores", []) and not (folder / "memory.parquet").is_dir():
        problems.append(f"{folder}: {NOT_STORED}")
        return {name: {} for name in ("memory", *DETAILS)}
    for name in ("memory", *DETAILS):
        parts = [run[name] for run in partial if name in run]
        try:
            stored = read(folder, name, problems) if name == "memory" else read_details(folder, name, problems)
        except (ValueError, OSError) as error:
            stored = {}
            if not parts and name == "memory":
                problems.append(str(error))
        tables[name] = joined([part for part in (stored, *parts) if part])
    return tables


def _cells(name: str, spec: RunSpec) -> Iterable[tuple[str, RunSpec]]:
    return [(f"{name} {label}".strip(), own) for label, own in spec.cells().items()]


def _of_cell(tables: Mapping[str, Arrays], cell: str, spec: RunSpec) -> Inspected | None:
    """The memory of the first seed of a cell; None if nothing about it is known."""
    reports = _lines(tables["memory"], cell, "liquid")
    if reports is None:
        return None
    details = {name: own for name in DETAILS if (own := _lines(tables[name], cell, "step")) is not None}
    seed = _seed(spec, [reports, *details.values()])
    memory = _of_seed(reports, seed)
    mine = {name: _of_seed(table, seed) for name, table in details.items() if seed in table["seed"]}
    params = MEMORIES["crystal"].settings(spec.preset, spec.params)
    steps = stage_steps(spec, stage_order(spec.suite, spec.order))
    held = int(sum(memory[phase][-1] for phase in ("liquid", "glass", "crystal")))
    return Inspected(
        f"{cell}, seed {seed}", params, capacity_for(spec).capacity, steps, memory, mine.get("histograms"),
        mine.get("followed"), mine.get("contents"), stored=held, warnings=_warnings(memory, params),
    )  # fmt: skip


def _seed(spec: RunSpec, tables: Sequence[Arrays]) -> int:
    """The first seed of a row that is in all these tables; if none is, the first in the first table.

    Learners of a cell may have been trained apart, and every run records the details of its first learner.
    """
    held = [set(table["seed"].tolist()) for table in tables]
    return int(min(set.intersection(*held) or held[0], key=lambda seed: (seed not in spec.seeds, seed)))


def _of_seed(table: Arrays, seed: int) -> Arrays:
    mine = table["seed"] == seed
    return {name: column[mine] for name, column in table.items()}


def _lines(table: Arrays, cell: str, known: str) -> Arrays | None:
    """The rows of a cell in which a column is known; None if there are none."""
    if known not in table:
        return None
    mine = (table["cell"] == cell) & np.isfinite(table[known].astype(float))
    return {name: column[mine] for name, column in table.items()} if mine.any() else None


def _warnings(memory: Arrays, params: CrystalParams) -> tuple[str, ...]:
    """What the last consolidation would warn about."""
    values = {name: torch.tensor([float(memory[name][-1]) if name in memory else torch.nan]) for name in NAMES}
    return health(values, params.interference)


def inspect_memory(path: str | Path, lane: int = 0, most: int = MOST) -> Inspected:
    """The contents of a memory's file: at most this many experiences, evenly spaced over the slots."""
    path = Path(path)
    memory = load_memory(path)
    if not 0 <= lane < memory.lanes:
        raise ValueError(f"lane: wanted 0 to {memory.lanes - 1}, got {lane}")
    found = memory.inspected(lane, most)
    if not found or not isinstance(memory.params, CrystalParams):
        raise ValueError(f"{path}: wanted a crystal memory, got a {type(memory).__name__}, which has no phases")
    contents = states(found)
    context = found.get("context")
    contents["arrived"] = np.full(len(contents["c"]), -1) if context is None else context.cpu().numpy()
    return Inspected(
        path.name, of_lane(memory.params, lane), memory.capacity, contents=contents, frames=frames(found["obs"]),
        stored=int(memory.ledger.count[lane]),
    )  # fmt: skip


def of_lane(params: CrystalParams, lane: int) -> CrystalParams:
    """The parameters of one lane."""
    own = {f.name: getattr(params, f.name) for f in fields(params) if f.name in MEMORIES["crystal"].per_lane}
    return replace(params, **{name: value[lane] for name, value in own.items() if isinstance(value, tuple)})


def frames(obs: Any) -> NDArray[Any] | None:
    """Observations that are images, [n, height, width] or [n, height, width, 3]; None if they are not.

    Of up to four stacked images, the last one; of more planes, the number of the first that is not 0.
    """
    if isinstance(obs, Mapping) or obs.dim() not in (3, 4):
        return None
    images: NDArray[Any] = obs.cpu().numpy()
    if images.ndim == 3 or images.shape[-1] == 3:
        return images
    planes = images if images.shape[1] < images.shape[-1] else np.moveaxis(images, -1, 1)
    if planes.shape[1] <= 4:
        return np.asarray(planes[:, -1])
    return np.where((planes > 0).any(axis=1), (planes > 0).argmax(axis=1) + 1, 0)
