"""Little's law for the three phases, and a memory designed from wishes instead of rates.

One unit of t is one consolidation; `episode` environment steps pass between two of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from crystalrl.theory.passage import time_to
from crystalrl.theory.rates import Array, Rates, non_negative, unit


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Phase borders 0 < tau_L < tau_C < 1; a crystal falls back to glass below tau_C − band."""

    tau_L: float = 0.3
    tau_C: float = 0.7
    band: float = 0.05

    def __post_init__(self) -> None:
        low, high = float(unit("tau_L", self.tau_L)), float(unit("tau_C", self.tau_C))
        if not 0 < low < high < 1:
            raise ValueError(f"thresholds must satisfy 0 < tau_L < tau_C < 1, got {low:g} and {high:g}")
        if not 0 <= self.band < high - low:
            raise ValueError(f"band must be in [0, tau_C − tau_L), got {self.band:g}")


@dataclass(frozen=True, slots=True)
class Contents:
    """Per phase: mean number of experiences, mean time spent there (units of t) and mean c while there.

    Infinite where the mean path never leaves the phase (c* at or below its upper threshold). Crystal c is c*.
    """

    number: tuple[float, float, float]
    time: tuple[float, float, float]
    mean: tuple[float, float, float]


def contents(rates: Rates, inflow: float, thresholds: Thresholds, crystal_time: float) -> Contents:
    """Steady contents = inflow × residence for equal experiences that enter at c = 0; `inflow` per unit of t."""
    flow, kept = float(non_negative("inflow", inflow)), float(non_negative("crystal_time", crystal_time))
    low, high = thresholds.tau_L, thresholds.tau_C
    reach_glass = float(time_to(rates, low, 0.0))
    reach_crystal = float(time_to(rates, high, 0.0))
    glass_time = reach_crystal - reach_glass if np.isfinite(reach_glass) else 0.0
    crystal = kept if np.isfinite(reach_crystal) else 0.0
    times = (reach_glass, glass_time, crystal)
    target = float(rates.target) if rates.rate > 0 else 0.0
    means = (_mean_between(rates, 0.0, low, reach_glass), _mean_between(rates, low, high, glass_time), target)
    number = (flow * times[0], flow * times[1], flow * times[2]) if flow > 0 else (0.0, 0.0, 0.0)
    return Contents(number, times, means)


def _mean_between(rates: Rates, low: float, high: float, time: float) -> float:
    """Time average of the mean path while it climbs from low to high: c* − (high − low)/(λ·time)."""
    if rates.rate == 0 or time == 0:
        return low
    return float(rates.target if np.isinf(time) else rates.target - (high - low) / (rates.rate * time))


def selectivity(alpha: ArrayLike, tau_L: float, episode: ArrayLike, liquid_capacity: ArrayLike) -> Array:
    """U_sel = −ln(1 − τ_L)·episode/(α·N_L): below it a first-in-first-out liquid evicts before glass is reached.

    For information only: with lowest-utility eviction survivors crystallise far below it.
    """
    return np.asarray(-np.log1p(-tau_L) * np.asarray(episode) / (np.asarray(alpha) * np.asarray(liquid_capacity)))


def uniform_utilities(level: Array) -> Array:
    """Quantile function of utilities spread evenly over [0, 1]."""
    return level


@dataclass(frozen=True, slots=True)
class Wish:
    """What is given and what is wished; times in environment steps.

    inflow: experiences per step. capacity: all slots. episode: steps between consolidations. lifetime: mean stay of a
    crystal before newer ones push it out. maturity: mean steps from entry to crystal; None means the lifetime. melt:
    steps of uninterrupted contradiction until a crystal (c = 1, U = 0) falls to glass; None means a tenth of the
    lifetime. spread: largest standard deviation of c wanted. utilities: quantile function of U over experiences,
    increasing from [0, 1] into [0, 1].
    """

    inflow: float = 1.0
    capacity: int = 100_000
    episode: float = 200.0
    lifetime: float = 1_000_000.0
    maturity: float | None = None
    melt: float | None = None
    spread: float = 0.01
    thresholds: Thresholds = Thresholds()
    utilities: Callable[[Array], Array] = uniform_utilities

    def __post_init__(self) -> None:
        for name in ("inflow", "capacity", "episode", "lifetime", "spread"):
            if not float(non_negative(name, getattr(self, name))) > 0:
                raise ValueError(f"{name} must be > 0, got 0")
        least = self.capacity / self.inflow
        if self.lifetime + self.waiting <= least:
            raise ValueError(
                f"lifetime + maturity must exceed {least:g} steps (capacity / inflow: every experience would have to "
                f"crystallize), got {self.lifetime + self.waiting:g}"
            )

    @property
    def waiting(self) -> float:
        """Mean steps from entry to crystal."""
        return self.lifetime if self.maturity is None else float(non_negative("maturity", self.maturity))


@dataclass(frozen=True, slots=True)
class Design:
    """Parameters that grant a wish, and what they imply. Times in environment steps.

    `capacity` and `contents`: liquid, glass, crystal slots and their mean occupation. `promoted`: share of experiences
    that crystallise, those of utility above `utility_floor`. `melting_utility`: a contradicted crystal of higher
    utility never melts. `notes` say where the promise is weak.
    """

    alpha: float
    beta: float
    sigma: float
    time_unit: float
    capacity: tuple[int, int, int]
    promoted: float
    utility_floor: float
    crystal_lifetime: float
    steps_to_glass: float
    steps_to_crystal: float
    mean_c: tuple[float, float, float]
    melting_utility: float
    notes: tuple[str, ...]


def design(wish: Wish) -> Design:
    """Rates and capacities such that all three phases are just full and crystals live as long as wished.

    Little: capacity = inflow·promoted·(maturity + lifetime). The liquid evicts its lowest utilities, so the best
    `promoted` share survives; with loss 0 an experience of utility U needs −ln(1 − τ)/(αU) to reach τ, and the mean of
    1/U over survivors turns the wished maturity into α. β follows from the wished melting time, σ from the wished
    spread, σ²/(8αU) = spread².
    """
    promoted = wish.capacity / (wish.inflow * (wish.waiting + wish.lifetime))
    crystal = max(1, round(wish.inflow * promoted * wish.lifetime))
    floor, slowness = _survivors(wish.utilities, promoted)
    to_glass, to_crystal = -np.log1p(-wish.thresholds.tau_L), -np.log1p(-wish.thresholds.tau_C)
    rest = wish.capacity - crystal
    alpha = to_crystal * slowness * wish.episode / wish.waiting
    liquid = round(rest * to_glass / to_crystal)
    edge = wish.thresholds.tau_C - wish.thresholds.band
    melt = wish.lifetime / 10 if wish.melt is None else float(non_negative("melt", wish.melt))
    beta = -np.log(edge) * wish.episode / melt
    climbing = Rates(alpha * floor, 0.0, 0.0)
    phases = contents(climbing, 1.0, wish.thresholds, 0.0)
    return Design(
        alpha=float(alpha),
        beta=float(beta),
        sigma=float(wish.spread * np.sqrt(8 * alpha * floor)),
        time_unit=wish.episode,
        capacity=(liquid, rest - liquid, crystal),
        promoted=promoted,
        utility_floor=floor,
        crystal_lifetime=wish.lifetime,
        steps_to_glass=float(wish.waiting * to_glass / to_crystal),
        steps_to_crystal=wish.waiting,
        mean_c=phases.mean,
        melting_utility=float(min(1.0, beta * edge / (alpha * (1 - edge)))),
        notes=_notes(wish, alpha, to_glass, liquid, melt),
    )


def _survivors(utilities: Callable[[Array], Array], promoted: float) -> tuple[float, float]:
    """Lowest utility among the best `promoted` share, and the mean of 1/U over that share."""
    node, weight = np.polynomial.legendre.leggauss(64)
    level = 1 - promoted + promoted * (node + 1) / 2
    best = unit("utilities", utilities(level))
    floor = float(utilities(np.array(1 - promoted)))
    if floor <= 0:
        raise ValueError("utilities must be positive over the promoted share: an experience of utility 0 never rises")
    return floor, float(np.sum(weight / best) / 2)


def _notes(wish: Wish, alpha: float, to_glass: float, liquid: int, melt: float) -> tuple[str, ...]:
    notes = []
    if to_glass / alpha < 5:
        notes.append(f"glass is reached in {to_glass / alpha:.1f} consolidations: consolidate more often")
    if wish.inflow * wish.episode > 0.1 * liquid:
        notes.append("one episode brings more than a tenth of the liquid slots: occupation will swing")
    if melt > wish.lifetime:
        notes.append("melting is slower than the lifetime: contradicted crystals are pushed out before they melt")
    return tuple(notes)
