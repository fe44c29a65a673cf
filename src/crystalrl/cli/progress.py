"""Progress of long commands: bars in a terminal, otherwise a line every few seconds."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from contextlib import AbstractContextManager, nullcontext
from typing import ClassVar, TypeVar

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn, track
from torch import Tensor

from crystalrl.study.events import Consolidated, Event, Scored
from crystalrl.study.events import Progress as Step
from crystalrl.study.plan import Group
from crystalrl.suites.workers import Incident

COLUMNS = (
    TextColumn("{task.description:20.20}"),
    BarColumn(bar_width=8),
    TextColumn("{task.fields[where]:>8}"),
    TextColumn("{task.fields[speed]:>8}"),
    TimeRemainingColumn(compact=True),
    TextColumn("{task.fields[success]}"),
    TextColumn("{task.fields[fill]}"),
)
REFRESH = 0.25
"""Seconds between two updates of the display."""
PAUSE = 10.0
"""Seconds between two lines if the output is not a terminal."""
Item = TypeVar("Item")


class ProgressDisplay:
    """One line per run: task, speed, time left, score so far and contents of each phase. A context manager.

    If the output is not a terminal, a line is printed every `pause` seconds, and the state of all runs at the end.
    If no run had an event, as in a refused command, nothing is printed.
    """

    pause: ClassVar[float] = PAUSE

    def __init__(self, groups: Sequence[Group], console: Console) -> None:
        self.groups = groups
        self.bars = Progress(*COLUMNS, console=console)
        self.lines = [
            self.bars.add_task(_title(group), total=group.steps, where="", speed="", success="", fill="")
            for group in groups
        ]
        self._started: dict[int, tuple[float, int]] = {}
        """Run → time of its first event, and steps done by then."""
        self._updated = 0.0
        self._printed = time.monotonic()

    def __enter__(self) -> ProgressDisplay:
        if self.bars.console.is_terminal:
            self.bars.start()
        return self

    def __exit__(self, *raised: object) -> None:
        for line in self.lines:
            self.bars.update(line, visible=bool(self._started))
        if self.bars.live.is_started:
            self.bars.stop()

    def show(self, number: int, event: Event) -> None:
        """Show an event of the run with this number."""
        self.bars.start()
        line = self.lines[number]
        self._started.setdefault(number, (time.monotonic(), event.done if isinstance(event, Step) else 0))
        if isinstance(event, Scored):
            self.bars.update(line, success=_success(event))
        elif isinstance(event, Consolidated):
            self.bars.update(line, fill=_fill(event.values))
        elif isinstance(event, Incident):
            self.bars.console.print(f"[yellow]warning[/yellow] {escape(str(event))}", highlight=False)
        elif isinstance(event, Step) and (time.monotonic() - self._updated > REFRESH or event.done == event.total):
            self._advance(number, event)

    def _advance(self, number: int, event: Step) -> None:
        self._updated = time.monotonic()
        group, (started, before) = self.groups[number], self._started[number]
        speed = (event.done - before) * len(group.lanes) / max(self._updated - started, 1e-3)
        where = f"task {event.stage + 1}/{len(group.lanes[0].stages)}"
        self.bars.update(self.lines[number], completed=event.done, where=where, speed=f"{speed:,.0f}/s")
        if not self.bars.console.is_terminal and self._updated - self._printed >= self.pause:
            self._printed = self._updated
            self._print(number, event)

    def _print(self, number: int, event: Step) -> None:
        line = self.bars.tasks[number]
        known = (line.fields[name] for name in ("where", "speed", "success", "fill"))
        parts = [f"{100 * event.done / event.total:.0f} %", *(part for part in known if part)]
        self.bars.console.print(f"{line.description}: {', '.join(parts)}", highlight=False, markup=False)


def tracked(
    items: Iterable[Item], doing: str, console: Console, pause: float = PAUSE, total: int | None = None
) -> Iterator[Item]:
    """The items one after another, with a bar in a terminal, otherwise with a line every `pause` seconds. `total` is
    needed if the items have no length."""
    number = len(items) if isinstance(items, Sized) else total
    if console.is_terminal:
        yield from track(items, doing, number, console=console, transient=True)
        return
    printed = time.monotonic()
    for done, item in enumerate(items):
        if time.monotonic() - printed >= pause:
            printed = time.monotonic()
            console.print(f"{doing}: {done} of {number}", highlight=False)
        yield item


def waiting(doing: str, console: Console) -> AbstractContextManager[object]:
    """For one long step: a spinner in a terminal, otherwise a line."""
    if console.is_terminal:
        return console.status(doing)
    console.print(f"{doing} …", highlight=False)
    return nullcontext()


def _title(group: Group) -> str:
    names = list(dict.fromkeys(lane.method for lane in group.lanes))
    return f"{', '.join(names)} ×{len(group.lanes)}"


def _success(event: Scored) -> str:
    """Mean score on the tasks learnt so far."""
    return f"score {float(event.score[:, : event.after].nanmean()):.2f}" if event.after else ""


def _fill(values: Mapping[str, Tensor]) -> str:
    """Experiences in each phase, mean over lanes, such as l224 g68 c300."""
    phases = [phase for phase in ("liquid", "glass", "crystal") if phase in values]
    return " ".join(f"{phase[0]}{float(values[phase].mean()):.0f}" for phase in phases)
