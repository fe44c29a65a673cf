"""Results so far of runs that are not finished, from their checkpoints: reading changes nothing."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crystalrl.memory.storage import checkpoint
from crystalrl.study.checkpoints import RECORDER, TRAINER
from crystalrl.study.recorder import stored_columns


@dataclass(frozen=True)
class Partial:
    """A run that is not finished, at its last checkpoint."""

    key: str
    tables: dict[str, dict[str, NDArray[Any]]]
    stage: int
    """Completed tasks."""
    saved: float
    """Time of the checkpoint, in seconds since 1970."""

    @property
    def cells(self) -> tuple[str, ...]:
        """The cells of its learners."""
        return tuple(dict.fromkeys(self.tables.get("scores", {}).get("cell", np.empty(0, str)).tolist()))

    @property
    def learners(self) -> int:
        """Number of its learners."""
        scores = self.tables.get("scores", {})
        return len(set(zip(scores["cell"].tolist(), scores["seed"].tolist(), strict=True))) if scores else 0

    def score(self, cell: str) -> float:
        """Mean score of a cell on the tasks learnt so far; NaN if there are none."""
        scores = self.tables.get("scores", {})
        if not scores:
            return float("nan")
        last = (scores["cell"] == cell) & (scores["after"] == self.stage)
        learnt = np.unique(scores["task"][scores["cell"] == cell])[: self.stage]
        known = scores["score"][last & np.isin(scores["task"], learnt)]
        return float(known.mean()) if len(known) else float("nan")


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
            found.append(Partial(path.stem, tables, int(stage), path.stat().st_mtime))
        except (ValueError, OSError, KeyError):
            continue
    return found
