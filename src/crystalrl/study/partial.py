"""Results so far of runs that are not finished, from their checkpoints: reading changes nothing."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crystalrl.memory.storage import checkpoint
from crystalrl.study.checkpoints import RECORDER, TRAINER
from crystalrl.study.definition import table_from
from crystalrl.study.metrics import current_stages
from crystalrl.study.plan import stage_tasks
from crystalrl.study.recorder import stored_columns
from crystalrl.study.spec import read_toml


@dataclass(frozen=True)
class Partial:
    """A run that is not finished, at its last checkpoint."""

    key: str
    tables: dict[str, dict[str, NDArray[Any]]]
    stage: int
    """Completed tasks."""
    saved: float
    """Time of the checkpoint, in seconds since 1970."""
    tasks: tuple[int, ...]
    """Task id of every stage of the suite."""

    @property
    def cells(self) -> tuple[str, ...]:
        """The cells of its learners."""
        return tuple(dict.fromkeys(self.tables.get("scores", {}).get("cell", np.empty(0, str)).tolist()))

    @property
    def learners(self) -> int:
        """Number of its learners."""
        scores = self.tables.get("scores", {})
        return len(set(zip(scores["cell"].tolist(), scores["seed"].tolist(), strict=True))) if scores else 0

    def learnt(self, cell: str) -> list[int]:
        """The tasks of a cell that were completed, in training order."""
        curves = self.tables.get("curves", {})
        begun = curves["task"][curves["cell"] == cell].tolist() if curves else []
        return list(dict.fromkeys(begun))[: self.stage]

    def so_far(self, cell: str) -> NDArray[np.float64]:
        """float64[n, stage]: mean score of each seed on the tasks learnt so far, after each task.

        A redefined task counts in its definition at that time.
        """
        scores, learnt = self.tables.get("scores", {}), self.learnt(cell)
        if not scores:
            return np.empty((0, 0))
        mine = {name: column[scores["cell"] == cell] for name, column in scores.items()}
        seeds, out = np.unique(mine["seed"]), []
        for after in range(1, len(learnt) + 1):
            trained = learnt[:after]
            current = [trained[k] for k in current_stages([self.tasks[stage] for stage in trained], after)]
            at = (mine["after"] == after) & np.isin(mine["task"], current)
            out.append([mine["score"][at & (mine["seed"] == seed)].mean() for seed in seeds])
        return np.array(out, float).reshape(len(out), len(seeds)).T


def unfinished(folder: Path) -> list[Partial]:
    """The runs of a results folder that have a checkpoint; one that is just being replaced or removed is left out."""
    found = []
    for path in sorted((folder / "checkpoints").glob("*.safetensors")):
        try:
            header, tensors = checkpoint.read(path)
            own = {
                name.removeprefix(f"{RECORDER}/"): t for name, t in tensors.items() if name.startswith(f"{RECORDER}/")
            }
            stage, _ = tensors[f"{TRAINER}/run.at"].tolist()
            tables = stored_columns(header[RECORDER], own)
            tasks = stage_tasks(table_from(read_toml(folder / "spec.toml")).suite)
            found.append(Partial(path.stem, tables, int(stage), path.stat().st_mtime, tasks))
        except (ValueError, OSError, KeyError):
            continue
    return found
