"""Live progress in the terminal."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from torch import Tensor

from crystalrl.study.plan import Group
from crystalrl.study.run import Consolidated, Event, Scored
from crystalrl.study.run import Progress as Step
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


def follow(events: Iterable[tuple[int, Event]], groups: Sequence[Group], console: Console) -> None:
    """Run a study's events to the end, showing task, speed, time left, success so far and how full each phase is."""
    with Progress(*COLUMNS, console=console) as bars:
        ids = [
            bars.add_task(_title(group), total=group.steps, where="", speed="", success="", fill="") for group in groups
        ]
        started: dict[int, tuple[float, int]] = {}
        shown = 0.0
        for number, event in events:
            begun, before = started.setdefault(number, (time.monotonic(), event.done if isinstance(event, Step) else 0))
            if isinstance(event, Scored):
                bars.update(ids[number], success=_success(event))
            elif isinstance(event, Consolidated):
                bars.update(ids[number], fill=_fill(event.values))
            elif isinstance(event, Incident):
                bars.console.print(f"[yellow]warning[/yellow] {escape(str(event))}", highlight=False)
            elif isinstance(event, Step) and (time.monotonic() - shown > REFRESH or event.done == event.total):
                shown = time.monotonic()
                lanes, stages = len(groups[number].lanes), len(groups[number].lanes[0].stages)
                speed = f"{(event.done - before) * lanes / max(shown - begun, 1e-3):,.0f}/s"
                bars.update(ids[number], completed=event.done, where=f"task {event.stage + 1}/{stages}", speed=speed)


def _title(group: Group) -> str:
    names = list(dict.fromkeys(lane.method for lane in group.lanes))
    return f"{', '.join(names)} ×{len(group.lanes)}"


def _success(event: Scored) -> str:
    """Mean score on what was learnt so far."""
    return f"score {float(event.score[:, : event.after].mean()):.2f}" if event.after else ""


def _fill(values: Mapping[str, Tensor]) -> str:
    """How many experiences are liquid, glass and crystal, on average over lanes: l224 g68 c300."""
    phases = [phase for phase in ("liquid", "glass", "crystal") if phase in values]
    return " ".join(f"{phase[0]}{float(values[phase].mean()):.0f}" for phase in phases)
