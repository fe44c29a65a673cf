"""The recommended memory for given tasks: the time unit, the crystals that remain per task, and melting."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from crystalrl.fates import fates
from crystalrl.params import CrystalParams
from crystalrl.params_checks import floats
from crystalrl.params_words import WASTE
from crystalrl.theory.rates import non_negative
from crystalrl.turnover import Climb, Turnover, turnover

SHORTEST = 20
"""Environment steps per unit of time, below which none is proposed: each unit has a consolidation."""
SHORTER = 0.7
"""Factor between the units that are tried."""


@dataclass(frozen=True, slots=True)
class Tasks:
    """Tasks one after another, for which `recommend` finds parameters. Times are in environment steps."""

    slots: int = 100_000
    """Slots of the whole memory."""
    task: int = 200_000
    """Environment steps per task."""
    tasks: int = 10
    """Number of tasks."""
    crystals: int = 100
    """Crystals that should remain of each task."""
    melts_within: int | None = None
    """Steps of permanent contradiction after which a crystal must be glass; None: melt as shipped."""

    def __post_init__(self) -> None:
        for name in ("slots", "task", "tasks", "crystals", "melts_within"):
            if getattr(self, name) is not None and not float(non_negative(name, getattr(self, name))) > 0:
                raise ValueError(f"{name}: wanted a number > 0, got 0")


@dataclass(frozen=True, slots=True)
class Recommended:
    """The recommended parameters with a time unit that suits the tasks, and what they imply."""

    params: CrystalParams
    time_unit: int
    """Environment steps per unit of time, and between consolidations."""
    promoted: float
    """Share of all experiences that becomes crystal in the long run, for evenly spread utilities."""
    steps_to_crystal: float
    """Mean steps until a typical one of them does; NaN if none does."""
    full_after: float | None
    """Steps until the crystal store is full; None: not within the time followed."""
    formed: float
    """Crystals that form in each task."""
    remaining: float
    """Crystals that remain of each task after all tasks: the store is a random sample of all."""
    remaining_of_last: float
    """Crystals of the last task then: fewer, since its last experiences are not crystals yet."""
    melting: float
    """Steps of permanent contradiction until a crystal of c = 1 becomes glass; ∞: never."""
    used: float
    """Share of the slots that are in use in the long run."""
    notes: tuple[str, ...]
    """Requirements that are not met, and what would help."""


def recommend(needs: Tasks, **changes: Any) -> Recommended:
    """The recommended parameters, with the largest time unit, up to the shipped one, for which crystals form in time.

    In time: within half a task on average, so that at least the first half of a task leaves crystals. Utilities are
    taken to be evenly spread over [0, 1], without interference, and outputs to have settled.
    """
    unit = CrystalParams(**changes).unit(needs.slots)
    while True:
        params = CrystalParams(**{"time_unit": unit, **changes})
        seen = turnover(params, needs.slots, params.interval(needs.slots))
        time = _time_to_crystal(params, needs.slots, seen)
        if time <= needs.task / 2 or SHORTER * unit < SHORTEST or "time_unit" in changes:
            break
        unit = round(SHORTER * unit)
    if needs.melts_within is not None:
        params = CrystalParams(**{"time_unit": unit, **changes, "melt": _melting_rate(params, needs)})
    return _implied(needs, params, seen, time)


def _time_to_crystal(params: CrystalParams, slots: int, seen: Turnover) -> float:
    """Mean steps to crystal at the median utility of those that crystallize; NaN if none does."""
    share, interval = seen.shares[1], params.interval(slots)
    if share == 0:
        return math.nan
    utility = 1 - share / 2
    return fates(seen, params, Climb.of(params, interval, slots, utility), utility, interval).mean("crystal")


def _melting_rate(params: CrystalParams, needs: Tasks) -> float:
    """μ with which c falls from 1 to the edge of glass in the consolidations that fit into the time, at least one."""
    interval = params.interval(needs.slots)
    count = max(1, int((needs.melts_within or 0) // interval))
    return -math.log(_edge(params)) * params.unit(needs.slots) / interval / count * (1 + 1e-6)


def _edge(params: CrystalParams) -> float:
    """c below which a crystal becomes glass."""
    return floats(params.tau_C)[0] - (params.band_C or 0.0)


def _implied(needs: Tasks, params: CrystalParams, seen: Turnover, time: float) -> Recommended:
    interval, store = params.interval(needs.slots), params.caps(needs.slots)[2]
    share, delay = seen.shares[1], 0.0 if math.isnan(time) else time
    kept = min(1.0, store / max(1.0, share * (needs.tasks * needs.task - delay)))
    climb = Climb.of(params, interval, needs.slots, 1.0, 1.0)
    plan = Recommended(
        params=params,
        time_unit=params.unit(needs.slots),
        promoted=share,
        steps_to_crystal=time,
        full_after=seen.full_after,
        formed=share * needs.task,
        remaining=kept * share * needs.task,
        remaining_of_last=kept * share * max(0.0, needs.task - delay),
        used=seen.used,
        melting=float(climb.consolidations(_edge(params), 1.0, start=1.0)) * interval,
        notes=(),
    )
    return replace(plan, notes=_notes(needs, plan, store))


def _notes(needs: Tasks, plan: Recommended, store: int) -> tuple[str, ...]:
    """One sentence for each requirement that is not met."""
    notes = []
    if plan.promoted == 0:
        notes.append("no crystal forms: experiences are overwritten before they become glass; use more slots")
    elif not plan.steps_to_crystal <= needs.task / 2:
        late = f"crystals form after {plan.steps_to_crystal:,.0f} steps, more than half a task"
        notes.append(f"{late}: tasks of at least {2 * plan.steps_to_crystal:,.0f} steps leave enough")
    if plan.remaining < needs.crystals:
        few = f"{plan.remaining:,.0f} crystals remain per task, {needs.crystals:,} are required"
        notes.append(f"{few}: use {_slots_for(needs, store):,} slots" if store < needs.crystals * needs.tasks else few)
    if plan.used < WASTE:
        notes.append(
            f"{1 - plan.used:.0%} of the slots stay empty, since nearly all crystallize: a longer time_unit helps"
        )
    if needs.melts_within is not None and plan.melting > needs.melts_within:
        notes.append(f"melting takes a consolidation, {plan.melting:,.0f} steps: set `every` to {needs.melts_within:,}")
    return tuple(notes)


def _slots_for(needs: Tasks, store: int) -> int:
    """Slots with which the crystal store holds the required crystals of all tasks, to two digits."""
    exact = needs.crystals * needs.tasks * needs.slots / max(1, store)
    scale = int(10 ** max(0, math.floor(math.log10(exact)) - 1))
    return math.ceil(exact / scale) * scale
