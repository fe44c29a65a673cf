"""How well the crystals cover the stored states, and what that says about the error of the values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crystalrl.report.maps import last_contents, vectors
from crystalrl.report.text import Grid, number
from crystalrl.study.inspection import Inspected
from crystalrl.theory.covering import covering, value_error_bound

NEIGHBOURS = 5
APART = 1e-9
"""Observations closer than this are the same state."""
Columns = Mapping[str, NDArray[Any]]
ABOUT = (
    "Distances are Euclidean, with every number of the observation in its standard deviations over the stored states. "
    "V is the value that the agent gave a state when the contents were recorded: that of the best action, or, with a "
    "policy, that of the stored action by the lower of both critics. The last number is an estimate, not "
    "a bound. The theory bounds the error of the values by (L·r + ε)/(1 − γ), if L is a Lipschitz constant of the true "
    "values, r the covering radius of all states that can be visited, and ε the bias from weights and gates. Here "
    "L and r are measured on stored states and their values, and ε is not known and left out; each of these can "
    "make the true error larger. Of stored states alone, V differs from its nearest crystal by at most the largest "
    "slope × r; how much it does differ is measured. With γ near 1 the estimate is far above the errors that occur."
)
NO_VALUES = "There is no estimate of the error of values: a memory alone, without its agent, has none."


def coverage(one: Inspected) -> Grid:
    """How far the stored states are from the nearest crystal, and the error of values that may follow from it."""
    from scipy.spatial import cKDTree

    held, _ = last_contents(one)
    points = vectors(held) if held else np.empty((0, 0))
    crystal = held["phase"] == 3 if held else np.empty(0, bool)
    if not crystal.any() or not points.shape[1]:
        return Grid([], [])
    distance, nearest = cKDTree(points[crystal]).query(points)
    found = covering(points, lambda _: np.asarray(distance))
    lines = [["covering radius r: largest distance of a stored state to the nearest crystal", number(found.radius)]]
    lines.append(["mean distance of a stored state to the nearest crystal", number(found.mean)])
    value, discount = values(held), float(np.max(held["discount"]))
    if value is not None and (slopes := steepness(points, value)) is not None and discount < 1:
        typical, largest = slopes
        estimate = value_error_bound(found.radius, typical, discount, 0.0)
        apart = np.abs(value - value[crystal][nearest])
        lines += [
            [f"L: slope of V between a state and its {NEIGHBOURS} nearest, 95th percentile", number(typical)],
            ["largest slope of V between any two stored states", number(largest)],
            ["largest difference of V between a stored state and its nearest crystal, measured", number(apart.max())],
            [f"estimate of the value error, L·r/(1 − γ) with γ = {discount:g}", number(estimate)],
        ]
    return Grid(["", "measured"], lines)


def values(held: Columns) -> NDArray[np.float64] | None:
    """The value of every experience; None where no agent gave one."""
    value = held["value"].astype(float) if "value" in held else np.full(len(held["c"]), np.nan)
    return None if np.isnan(value).any() else np.asarray(value)


def steepness(points: NDArray[np.float64], value: NDArray[np.float64]) -> tuple[float, float] | None:
    """Slopes of values between states: to the nearest ones, 95th percentile; between any two, largest.

    None if fewer than two states differ.
    """
    from scipy.spatial import cKDTree
    from scipy.spatial.distance import pdist

    every, change = pdist(points), pdist(value[:, None])
    if not (every > APART).any():
        return None
    distance, near = cKDTree(points).query(points, min(NEIGHBOURS + 1, len(points)))
    apart = distance[:, 1:] > APART
    slope = np.abs(value[near[:, 1:]] - value[:, None])[apart] / distance[:, 1:][apart]
    largest = float((change[every > APART] / every[every > APART]).max())
    return (float(np.quantile(slope, 0.95)) if len(slope) else largest), largest
