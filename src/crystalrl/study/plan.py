"""From specs to lane-batched runs: lanes with the same shapes are trained together."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from crystalrl.backends.splitmix import mix_int
from crystalrl.study.metrics import first_pass
from crystalrl.study.registry import kinds_of
from crystalrl.study.spec import SECTIONS, RunSpec
from crystalrl.suites import classic
from crystalrl.suites.benchmarks import benchmark, sequence_of
from crystalrl.suites.square import SquareName
from crystalrl.suites.tasks import Sequence as TaskSequence


@dataclass(frozen=True)
class Lane:
    """One learner: its row (`method`), its cell (row and listed values), its seed, and its stages in order."""

    method: str
    cell: str
    seed: int
    stages: tuple[int, ...]


@dataclass(frozen=True)
class Group:
    """Lanes that are trained in one run. `values` holds, per section, scalars or one number per lane."""

    spec: RunSpec
    """Shared by all lanes, except that its seeds and per-lane numbers are those of the first lane."""
    lanes: tuple[Lane, ...]
    values: Mapping[str, Mapping[str, Any]]

    @property
    def key(self) -> str:
        """A hash of everything that could change the scores."""
        named = asdict(self)
        if (own := sequence_of(self.spec.suite)) is not None:
            named["spec"]["suite"] = own.values()
        for name, unset in _LATER.items():
            if named["spec"][name] == unset:
                del named["spec"][name]
        text = json.dumps(named, sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    @property
    def steps(self) -> int:
        """Environment steps per lane."""
        return sum(self.stage_steps)

    @cached_property
    def stage_steps(self) -> tuple[int, ...]:
        """Environment steps per lane of each stage, in training order; they are the same for all lanes."""
        return stage_steps(self.spec, self.lanes[0].stages)

    @cached_property
    def first_lanes(self) -> tuple[int, ...]:
        """The first lane of every cell: the one whose memory is recorded in detail."""
        cells = [lane.cell for lane in self.lanes]
        return tuple(cells.index(cell) for cell in dict.fromkeys(cells))

    def begins(self, stage: int) -> int:
        """Environment steps per lane before a stage."""
        return sum(self.stage_steps[:stage])


_LATER = {
    "budget_mb": 0.0, "order": 0, "orders": 1, "grid": "product", "updates": 0.0, "random_steps": 0, "lanes": 0,
    "reward_scale": 1.0,
}  # fmt: skip
"""Fields added later: at these values they are left out of the hash, so that older results keep their keys."""


def plan(rows: Mapping[str, RunSpec]) -> list[Group]:
    """Group the lanes of all rows by structure, in order of first appearance."""
    members: dict[tuple[str, tuple[int, ...]], list[tuple[Lane, RunSpec]]] = {}
    for name, spec in rows.items():
        for label, cell in spec.cells().items():
            lanes = _lanes(name, f"{name} {label}".strip(), cell)
            structure = _structure(cell)
            for lane in lanes:
                members.setdefault((structure, stage_steps(cell, lane.stages)), []).append((lane, cell))
    return [_group(part) for pairs in members.values() for part in _parts(pairs)]


def _parts(pairs: Sequence[tuple[Lane, RunSpec]]) -> list[Sequence[tuple[Lane, RunSpec]]]:
    """The lanes of a structure, at most `lanes` in each part."""
    most = pairs[0][1].lanes or len(pairs)
    return [pairs[first : first + most] for first in range(0, len(pairs), most)]


def _lanes(method: str, cell: str, spec: RunSpec) -> list[Lane]:
    stages = stage_order(spec.suite, spec.order)
    if spec.scratch:
        return [Lane(method, cell, seed, (stage,)) for seed in spec.seeds for stage in stages]
    return [Lane(method, cell, seed, stages) for seed in spec.seeds]


def stage_steps(spec: RunSpec, stages: Sequence[int]) -> tuple[int, ...]:
    """Environment steps of some stages."""
    if (own := sequence_of(spec.suite)) is not None:
        each = own.steps(spec.steps)
        return tuple(each[stage] for stage in stages)
    return (spec.steps,) * len(stages)


def stage_order(suite: str | TaskSequence, order: int) -> tuple[int, ...]:
    """The stages of a suite in one of its orders: 0 is its own, the others are distinct permutations, which a published
    benchmark may define.

    Stages that redefine a task stay last, unpermuted.
    """
    tasks, published = stage_tasks(suite), benchmark(suite) if isinstance(suite, str) else None
    if published is not None and (given := published.order(order)) is not None:
        return given
    first = first_pass(tasks)
    if order >= math.factorial(first):
        raise ValueError(f"orders: wanted at most {math.factorial(first)} for {first} tasks, got {order + 1}")
    found, salt = [tuple(range(first))], 0
    while len(found) <= order:
        salt += 1
        drawn = tuple(sorted(range(first), key=lambda stage: mix_int(salt * 1_000_003 + stage)))
        if drawn not in found:
            found.append(drawn)
    return (*found[order], *range(first, len(tasks)))


def stage_tasks(suite: str | TaskSequence) -> tuple[int, ...]:
    """Task id of every stage of a suite."""
    if (own := sequence_of(suite)) is not None:
        return own.ids
    assert isinstance(suite, str)
    count = classic.stage_count(suite)
    return SquareName.parse(suite).tasks if count is None else tuple(range(count))


def _structure(spec: RunSpec) -> str:
    """The settings that lanes of one run must share: everything but seeds and numbers that may differ between lanes."""
    shared = asdict(spec)
    for free in ("seeds", "order", "grid"):
        shared.pop(free)
    for section, kind in kinds_of(spec).items():
        given = getattr(spec, section)
        shared[section] = {name: value for name, value in given.items() if name not in kind.per_lane}
        shared[section] |= {n: None for n, v in kind.lane_numbers(spec.preset, given).items() if v is None}
    return json.dumps(shared, sort_keys=True, default=str)


def _group(pairs: Sequence[tuple[Lane, RunSpec]]) -> Group:
    specs = [spec for _, spec in pairs]
    values = {section: _values(specs, section) for section in SECTIONS}
    return Group(specs[0], tuple(lane for lane, _ in pairs), values)


def _values(specs: Sequence[RunSpec], section: str) -> dict[str, Any]:
    """All settings that any lane was given: shared values unchanged, per-lane numbers completed from the preset."""
    kind = kinds_of(specs[0])[section]
    given = dict.fromkeys(name for spec in specs for name in getattr(spec, section))
    numbers = [kind.lane_numbers(spec.preset, getattr(spec, section)) for spec in specs]
    return {
        name: _column([each[name] for each in numbers]) if name in kind.per_lane else getattr(specs[0], section)[name]
        for name in given
    }


def _column(values: list[Any]) -> Any:
    """One value if it is the same for all lanes, else one per lane."""
    same = all(value == values[0] for value in values)
    return values[0] if same else tuple(float(value) for value in values)
