"""Measured coverage of a space by a stored set, and the value error bound that follows (replaces Thm qconv)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from crystalrl.theory.rates import Array, non_negative


@dataclass(frozen=True, slots=True)
class Covering:
    """Distance from probes to the nearest stored point: largest (`radius`), `mean`, and index of the `farthest` probe.

    The radius over finitely many probes is a lower bound on the supremum over the space.
    """

    radius: float
    mean: float
    farthest: int


def covering(probes: Array, nearest: Callable[[Array], Array]) -> Covering:
    """Measure with `nearest(probes [P, D]) -> distances [P]`, e.g. a k-d tree query over the stored set."""
    distance = non_negative("nearest(probes)", nearest(probes))
    if distance.shape != (len(probes),):
        raise ValueError(f"nearest: wanted one distance per probe, [{len(probes)}], got {list(distance.shape)}")
    return Covering(float(distance.max()), float(distance.mean()), int(distance.argmax()))


def value_error_bound(radius: float, lipschitz: float, discount: float, weight_error: float) -> float:
    """(L·r + ε_w)/(1 − γ) ≥ ‖Q̂ − Q*‖ for the fixed point of the weighted empirical Bellman operator.

    `weight_error` ε_w is the largest |T̂_w Q* − T Q*| at stored points: the bias from importance weights and gates.
    """
    for name, value in (("radius", radius), ("lipschitz", lipschitz), ("weight_error", weight_error)):
        non_negative(name, value)
    if not 0 <= discount < 1:
        raise ValueError(f"discount: wanted a number in [0, 1), got {discount:g}")
    return (lipschitz * radius + weight_error) / (1 - discount)


def shrinkage(radii: Array, sizes: Array) -> float:
    """Slope of ln radius against ln size: −1/d in d dimensions; Assumption cover takes −½, which holds for d = 2."""
    return float(np.polyfit(np.log(sizes), np.log(radii), 1)[0])
