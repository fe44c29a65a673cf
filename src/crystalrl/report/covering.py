"""How well the crystals cover the stored states, and the bound of the error of values that follows."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crystalrl.report.maps import last_contents, numbered, vectors
from crystalrl.report.text import Grid, Noted, number
from crystalrl.study.details import WIDEST
from crystalrl.study.inspection import Inspected
from crystalrl.theory.covering import Covering, covering, value_error_bound

SAME = 1e-6
"""States closer than this part of the largest distance have the same observation."""
CLOSE = 0.1
"""States closer than this part of the covering radius are near-duplicates."""
STEEPER = 2.0
"""How much steeper near-duplicates must be than other states for the page to say so."""
ROUNDED = 1.001
"""How much steeper the stored values may look than they are because they are rounded."""
SCALED = "standard deviations"
ONE = f"with every number of the observation in its {SCALED} over the stored states"
RAW = "the units of the observation"
Columns = Mapping[str, NDArray[Any]]
ABOUT_VALUES = (
    "V is the value that the agent gave a state when the contents were recorded: that of the best action, or, with a "
    "policy, that of the stored action by the lower of both critics."
)
THEOREM = (
    "The theory bounds the error of values that are learnt from the crystals alone by (L·r + ε)/(1 − γ). L is a "
    "Lipschitz constant of the true values: they change by at most L per unit of distance. r is the covering radius of "
    "all states that can be visited. ε is the largest error of the targets at crystals, from sampling weights or from "
    "chance."
)
OWN = (
    "Here L is the largest slope of V, the smallest Lipschitz constant that fits the stored values. So the bound holds "
    "if the true values are no steeper than the stored ones, if no state is further from the crystals than the stored "
    "ones, and if ε is 0. None of these is known. If you know L of your task, give it: --lipschitz L."
)
GIVEN = (
    "Here L is the one you gave. So the bound holds if L is right, if no state is further from the crystals than the "
    "stored ones, and if ε is 0."
)
ACTIONS = "They are between states, without actions, as if a crystal taught the values of all actions in its state."
NO_VALUES = (
    "V is not known: a memory alone, without its agent, has no values. Without a Lipschitz constant of your own "
    "(--lipschitz L) there is no bound of the value error."
)


@dataclass(frozen=True)
class Slopes:
    """How values change between states."""

    largest: float
    """Largest slope between any two states whose observations differ."""
    distance: float
    """Of these two states."""
    beyond: float
    """Largest slope between states that are no near-duplicates; NaN if all are."""
    same: float
    """Largest difference between states with the same observation."""


@dataclass(frozen=True)
class Measured:
    """What the notes of the table are about."""

    radius: Covering
    value: NDArray[np.float64] | None
    slopes: Slopes | None
    given: float | None
    """Lipschitz constant that the user knows."""
    discount: float

    @property
    def lipschitz(self) -> float | None:
        """L of the bound; None if it is not known."""
        return self.given if self.given is not None else self.slopes.largest if self.slopes else None

    def bound(self, lipschitz: float) -> float:
        """The bound of the value error; infinite without a discount."""
        known = self.discount < 1
        return value_error_bound(self.radius.radius, lipschitz, self.discount, 0.0) if known else math.inf


def known_lipschitz(value: float | None) -> float | None:
    """A Lipschitz constant that the user knows, checked."""
    if value is not None and not (math.isfinite(value) and value > 0):
        raise ValueError(f"lipschitz: wanted a finite number above 0, got {value:g}")
    return value


def coverage(one: Inspected, lipschitz: float | None = None) -> Noted:
    """How far the stored states are from the nearest crystal, and the bound of the error of values that follows.

    lipschitz: of the true values, per unit of the observation, if it is known. All distances are then in these units.
    """
    from scipy.spatial import cKDTree

    given, (held, _) = known_lipschitz(lipschitz), last_contents(one)
    points = vectors(held, scaled=given is None) if held else np.empty((0, 0))
    crystal = held["phase"] == 3 if held else np.empty(0, bool)
    if not crystal.any() or not points.shape[1]:
        return Noted(Grid([], []))
    distance, nearest = cKDTree(points[crystal]).query(points)
    radius, value = covering(points, lambda _: np.asarray(distance)), values(held)
    slopes = None if value is None else steepness(points, value, CLOSE * radius.radius)
    found = Measured(radius, value, slopes, given, float(np.max(held["discount"])))
    apart = None if value is None else float(np.abs(value - value[crystal][nearest]).max())
    unit = SCALED if given is None else RAW
    grid = Grid([f"distances in {unit}", "number"], list(_lines(found, apart)))
    return Noted(grid, (_units(one, held, points, unit), *_notes(found)))


def values(held: Columns) -> NDArray[np.float64] | None:
    """The value of every experience; None where no agent gave one."""
    value = held["value"].astype(float) if "value" in held else np.full(len(held["c"]), np.nan)
    return None if np.isnan(value).any() else np.asarray(value)


def steepness(points: NDArray[np.float64], value: NDArray[np.float64], close: float) -> Slopes | None:
    """Slopes of values between any two states; those closer than `close` are near-duplicates.

    None if no two states differ.
    """
    from scipy.spatial.distance import pdist

    distance, change = pdist(points), pdist(value[:, None])
    apart = distance > SAME * distance.max(initial=0.0)
    if not apart.any():
        return None
    slope, far = change[apart] / distance[apart], distance[apart] >= close
    beyond, at = float(slope[far].max()) if far.any() else math.nan, int(slope.argmax())
    return Slopes(float(slope[at]), float(distance[apart][at]), beyond, float(change[~apart].max(initial=0.0)))


def amount(value: float) -> str:
    """A number of any size, in few digits."""
    small, large = 0 < value < 0.01, value >= 1e4
    return f"{value:.2e}" if small else f"{value:,.0f}" if large else number(value)


def _lines(found: Measured, apart: float | None) -> Iterator[list[str]]:
    yield ["covering radius r: largest distance of a stored state to the nearest crystal", amount(found.radius.radius)]
    yield ["mean distance of a stored state to the nearest crystal", amount(found.radius.mean)]
    if apart is not None:
        yield ["largest difference of V between a stored state and its nearest crystal", amount(apart)]
    if found.slopes is not None:
        yield ["largest slope of V between any two stored states", amount(found.slopes.largest)]
    if found.lipschitz is not None:
        own = f"your L = {found.given:g}" if found.given is not None else "L = this slope"
        which = f"with {own}, ε = 0 and γ = {found.discount:g}"
        bound = found.bound(found.lipschitz)
        yield [f"bound of the value error, (L·r + ε)/(1 − γ), {which}", "none" if bound == math.inf else amount(bound)]


def _units(one: Inspected, held: Columns, points: NDArray[np.float64], unit: str) -> str:
    """What a distance is, and of how many experiences."""
    said = ["Distances are Euclidean, " + (ONE if unit == SCALED else f"in {RAW}") + ".", ACTIONS]
    if len(points) < one.stored:
        said.append(f"They are of {len(points):,} of {one.stored:,} experiences, evenly spaced over the slots.")
    if len(numbered("v", held)) >= WIDEST:
        said.append(f"Of observations with more than {WIDEST} numbers, they are estimates from {WIDEST} projections.")
    return " ".join(said)


def _notes(found: Measured) -> Iterator[str]:
    yield ABOUT_VALUES if found.value is not None else NO_VALUES
    if found.lipschitz is None:
        return
    yield f"{THEOREM} {OWN if found.given is None else GIVEN}"
    if found.slopes is not None:
        yield from _doubts(found, found.slopes)
    if found.discount >= 1:
        yield "Without a discount (γ = 1) there is no bound."
    elif found.value is not None and found.bound(found.lipschitz) > (spread := float(np.ptp(found.value))):
        yield f"The stored values differ by at most {amount(spread)}: a bound above this tells little."


def _doubts(found: Measured, slopes: Slopes) -> Iterator[str]:
    """What the slopes of the stored values say against L."""
    if slopes.same > 0:
        yield (
            f"Stored states with the same observation differ in V by up to {amount(slopes.same)}, for instance in "
            "other tasks or with other actions. No L holds between them, and they are left out."
        )
    if found.given is not None and slopes.largest > ROUNDED * found.given:
        yield (
            f"The stored values are steeper than your L: up to {amount(slopes.largest)}. Either they are wrong, or L "
            "is too small."
        )
    elif found.given is None and slopes.largest > STEEPER * slopes.beyond:
        yield (
            f"The largest slope is between near-duplicates, {amount(slopes.distance)} apart: V is noisy there, or has "
            f"a step. Between states at least {CLOSE:g} r apart the largest slope is {amount(slopes.beyond)}, and the "
            f"bound would be {amount(found.bound(slopes.beyond))}."
        )
