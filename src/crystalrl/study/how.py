"""Where and how runs are computed: the options that every command which trains has."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from crystalrl.study.checkpoints import MINUTES
from crystalrl.study.execution import best_device, execute, execute_ray, prepare
from crystalrl.study.loggers import open_sink, passed_on
from crystalrl.study.plan import Group
from crystalrl.study.run import Event
from crystalrl.study.store import Store


@dataclass(frozen=True)
class How:
    """Where and how runs are computed."""

    device: str = ""
    """cpu or cuda; empty: cuda where there is one."""
    how: Literal["local", "ray"] = "local"
    """In this process, or as tasks of a Ray cluster."""
    address: str = ""
    """Of the Ray cluster, such as auto; empty: one on this machine."""
    checkpoint_minutes: float = MINUTES
    """Beside every task's end, keep what is needed to resume every so many minutes."""
    sink: str = ""
    """Also send the numbers to tensorboard or wandb."""

    def events(self, groups: Sequence[Group], store: Store) -> Iterator[tuple[int, Event]]:
        """What happens as the groups are run."""
        device = self.device or best_device()
        prepare(device)
        if self.how == "ray":
            events = execute_ray(groups, store, device, self.checkpoint_minutes, self.address)
        else:
            events = execute(groups, store, device, self.checkpoint_minutes)
        return passed_on(events, groups, open_sink(self.sink, store.folder)) if self.sink else events
