"""What random operations on a memory and on its twins need, whatever the memory."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import torch
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine

from crystalrl import Batch

IN_MEMORY = Path("/dev/shm")  # where syncing a file costs nothing


class TwinMachine(RuleBasedStateMachine):
    """A memory and one twin per lane. Subclasses build them and have the rules."""

    lanes: int | None
    envs: int
    n_step: int
    device = "cpu"
    twins: list[Any]

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory(dir=IN_MEMORY if IN_MEMORY.is_dir() else None)
        self.file = Path(self.folder.name) / "memory"
        self.saved: Any = None
        """What `file` holds: copies of the twins, and what else a rule wants back."""
        self.outstanding: list[tuple[Batch, list[Any]]] = []
        """Batches not yet updated, each with its ticket of every twin."""
        self.width = self.lanes or 1

    def teardown(self) -> None:
        self.folder.cleanup()

    def outer(self, rows: list[list[Any]]) -> Any:
        """[L][E] as the user sees it."""
        return rows if self.lanes is not None else rows[0]

    def rows(self, data: st.DataObject, values: st.SearchStrategy[Any]) -> list[list[Any]]:
        """[L][E] of drawn values."""
        one = st.lists(values, min_size=self.envs, max_size=self.envs)
        return data.draw(st.lists(one, min_size=self.width, max_size=self.width))

    def compare_slots(self, got: torch.Tensor, wanted: list[list[list[int]]]) -> None:
        """The slots that `add` or `end_episode` returned, and those of the twins [L][E][n]."""
        array = torch.tensor(wanted)
        if self.n_step == 1:
            array = array[..., 0]
        if self.lanes is None:
            array = array[0, 0] if self.envs == 1 else array[0]
        assert got.tolist() == array.tolist()
