"""Checks that every field of `CrystalParams` is in its range."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any

RANGES = [
    ("alpha", 0, 1e6), ("beta", 0, 1e6), ("sigma", 0, 1e3), ("leak", 0, 1e6), ("melt", 0, 1e6), ("settle", 1e-9, 1e9),
    ("tau_L", 0, 1), ("tau_C", 0, 1), ("band_L", 0, 1), ("band_C", 0, 1), ("w1", 0, 1), ("w2", 0, 1), ("w3", 0, 1),
    ("Z", 1e-9, 1e12), ("cell", 1e-9, 1e9), ("epsilon", 0, 1e30), ("delta_r", 0, 1e30), ("backup", 0, 1),
    ("gate", 0, 100), ("w_min", 0, 1), ("kappa", 0, 1e9), ("anchor_power", 0, 100), ("nu", 0, 1), ("is_exponent", 0, 1),
    ("draws_per_experience", 1e-9, 1e9), ("spare", 0, 0.9), ("delta_t", 1e-9, 1e9),
]  # fmt: skip

CHOICES = {
    "scale": ("median", "q95", "raw"),
    "novelty": ("auto", "grid", "knn", "state_action"),
    "downstream": ("neighbours", "random"),
    "interference": ("none", "exists", "newer_majority", "fresh_mean"),
    "split": ("largest_remainder", "floor"),
    "overflow": ("reservoir", "frozen"),
    "integrator": ("beta", "euler"),
    "clock": ("steps", "calls"),
    "importance": ("phase", "memory"),
    "boost": (False, True),
    "raw_distance": (False, True),
    "project": (False, True),
    "borrow": (False, True),
    "phases": (False, True),
    "every_episode": (False, True),
    "warm": (False, True),
}

OPTIONAL = (
    "melt", "settle", "band_C", "epsilon", "delta_r", "tau_evict", "time_unit", "every", "is_steps",
    "draws_per_experience",
)  # fmt: skip
"""Fields that may be None."""

SINGLE = ("band_L", "band_C", "cell", "backup", "draws_per_experience", "spare", "delta_t")
"""Fields that hold one number for all lanes."""


def floats(value: Any) -> list[float]:
    """The numbers in a field: a scalar, or one per lane or name; empty if it holds anything else."""
    if isinstance(value, Mapping):
        value = list(value.values())
    values = list(value) if isinstance(value, Sequence) and not isinstance(value, str) else [value]
    if any(isinstance(v, bool) or not isinstance(v, Real) for v in values):
        return []
    return [float(v) for v in values]


def check_fields(params: object) -> None:
    """Raise ValueError for the first field that is out of its range, naming it."""
    for name, low, high in RANGES:
        given = getattr(params, name)
        if given is None and name in OPTIONAL:
            continue
        values = floats(given) if name not in SINGLE or isinstance(given, Real) else []
        if not values or not all(low <= value <= high for value in values):
            raise ValueError(f"{name}: wanted a number from {low:g} to {high:g}, got {given!r}")
    for name in ("k", "sweeps", "slices", "tau_evict", "time_unit", "every", "is_steps", "practice"):
        value, least = getattr(params, name), int(name != "practice")
        whole = isinstance(value, int) and not isinstance(value, bool) and value >= least
        if not whole and not (value is None and name in OPTIONAL):
            raise ValueError(f"{name}: wanted a whole number ≥ {least}, got {value!r}")
    for name, allowed in CHOICES.items():
        if getattr(params, name) not in allowed:
            raise ValueError(f"{name}: wanted one of {', '.join(map(str, allowed))}, got {getattr(params, name)!r}")
    for name in ("capacity", "batch"):
        shares = floats(getattr(params, name))
        if len(shares) != 3 or any(not 0 <= share < math.inf for share in shares) or shares[0] <= 0:
            raise ValueError(f"{name}: wanted three shares ≥ 0, liquid above 0, got {getattr(params, name)!r}")
        if not 1e-100 < shares[0] <= sum(shares) < math.inf:
            raise ValueError(f"{name}: wanted shares whose sum is finite, liquid above 1e-100, got {shares}")


def require_params(given: object, wanted: type) -> None:
    """Raise if parameters are neither of the wanted class nor None, such as the name of a preset."""
    if given is not None and not isinstance(given, wanted):
        name = wanted.__name__
        raise TypeError(f"params: wanted {name}, such as {name}.anchored(), got {given!r}")
