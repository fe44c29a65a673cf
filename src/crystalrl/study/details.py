"""From events to rows about single experiences, of the first lane of every cell."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crystalrl.study.contents import Contents
from crystalrl.study.events import Consolidated
from crystalrl.study.plan import Group

WIDEST = 32
"""Numbers of an observation that are stored; longer ones are projected to this many."""
Rows = Mapping[str, NDArray[Any]]


def histogram_rows(group: Group, event: Consolidated) -> Rows:
    """c by phase in bins, a row for each that is not empty."""
    parts = []
    for lane in _due(group, event) if event.histogram is not None else ():
        counts = event.histogram[lane].numpy() if event.histogram is not None else np.empty((0, 0))
        phase, place = np.nonzero(counts)
        parts.append(_of(group, lane, event, {"phase": phase + 1, "bin": place, "count": counts[phase, place]}))
    return _joined(parts)


def followed_rows(group: Group, event: Consolidated) -> Rows:
    """The state of the followed slots that hold an experience."""
    parts = []
    for lane in _due(group, event) if event.followed else ():
        values = {name: column[lane].numpy() for name, column in event.followed.items()}
        held = values["phase"] > 0
        values = {name: column[held] for name, column in values.items()}
        parts.append(_of(group, lane, event, {**values, "arrived": arrival(group, lane, values["number"])}))
    return _joined(parts)


def contents_rows(group: Group, event: Contents) -> Rows:
    """The state of experiences, with their observations as columns v0, v1, …"""
    parts = []
    for lane, found in event.experiences.items():
        values = states(found)
        parts.append(_of(group, lane, event, {**values, "arrived": arrival(group, lane, values["number"])}))
    return _joined(parts)


def states(found: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
    """What a memory returned as `inspected`, as columns of the contents table."""
    names = ("number", "phase", "c", "utility", "error", "interference", "reward", "discount")
    values = {name: found[name].cpu().numpy() for name in names} | {"slot": found["index"].cpu().numpy()}
    value = found["value"].cpu().numpy() if "value" in found else np.full(len(values["c"]), np.nan, np.float32)
    returns = {name: found[name] for name in ("episode_return",) if name in found}
    return {**values, "value": value, **returns, **vectors(found["obs"]), **actions(found["action"])}


def vectors(obs: Any) -> dict[str, NDArray[np.float32]]:
    """Observations [n, …], or several by key, as columns; more than `WIDEST` numbers are projected at random, always in
    the same way.
    """
    flat = np.concatenate([_flat(each) for each in (obs.values() if isinstance(obs, Mapping) else [obs])], axis=1)
    if flat.shape[1] > WIDEST:
        matrix = np.random.default_rng(0).standard_normal((flat.shape[1], WIDEST)) / np.sqrt(WIDEST)
        flat = (flat @ matrix.astype(np.float32)).astype(np.float32)
    return {f"v{place}": flat[:, place] for place in range(flat.shape[1])}


def actions(action: Any) -> dict[str, NDArray[np.float32]]:
    """Actions [n] or [n, A] as columns; none if they have more than `WIDEST` numbers."""
    flat = _flat(action)
    return {f"a{place}": flat[:, place] for place in range(flat.shape[1])} if flat.shape[1] <= WIDEST else {}


def _flat(values: Any) -> NDArray[np.float32]:
    array = np.asarray(values.cpu() if hasattr(values, "cpu") else values, np.float32)
    return array.reshape(len(array), -1)


def arrival(group: Group, lane: int, number: NDArray[Any]) -> NDArray[np.int64]:
    """The stage during which experiences arrived, from their numbers in order of arrival."""
    place = np.searchsorted(np.cumsum(group.stage_steps), number, side="right")
    stages = np.array(group.lanes[lane].stages)
    return np.asarray(stages[place.clip(max=len(stages) - 1)], np.int64)


def _due(group: Group, event: Consolidated) -> Iterable[int]:
    """The first lanes that this consolidation was for."""
    return [lane for lane in group.first_lanes if float(event.values["evaluated"][lane]) > 0]


def _of(group: Group, lane: int, event: Consolidated | Contents, values: Rows) -> Rows:
    one, count = group.lanes[lane], len(next(iter(values.values())))
    head = {
        "cell": one.cell,
        "method": one.method,
        "seed": one.seed,
        "step": event.done,
        "task": one.stages[event.stage],
    }
    return {**{name: np.full(count, value) for name, value in head.items()}, **values}


def _joined(parts: list[Rows]) -> Rows:
    known = [part for part in parts if len(part["cell"])]
    return {name: np.concatenate([part[name] for part in known]) for name in known[0]} if known else {}
