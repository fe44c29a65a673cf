"""Little's law for the three phases, and `design`, which turns requirements into the parameters of a memory.

One unit of t is one consolidation; `episode` environment steps pass between two of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import lambertw

from crystalrl.params import CrystalParams
from crystalrl.theory.passage import time_to
from crystalrl.theory.rates import Array, Rates, non_negative, unit


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Phase thresholds 0 < tau_L < tau_C < 1; a crystal becomes glass again below tau_C − band."""

    tau_L: float = 0.3
    tau_C: float = 0.7
    band: float = 0.05

    def __post_init__(self) -> None:
        low, high = float(unit("tau_L", self.tau_L)), float(unit("tau_C", self.tau_C))
        if not 0 < low < high < 1:
            raise ValueError(f"tau_L, tau_C: wanted 0 < tau_L < tau_C < 1, got {low:g} and {high:g}")
        if not 0 <= self.band < high - low:
            raise ValueError(f"band: wanted a number in [0, tau_C − tau_L), got {self.band:g}")


@dataclass(frozen=True, slots=True)
class Contents:
    """Per phase: mean number of experiences, mean time spent there (units of t) and mean c while there.

    Infinite where the mean path never leaves the phase (c* at or below its upper threshold). Crystals have mean c*.
    """

    number: tuple[float, float, float]
    time: tuple[float, float, float]
    mean: tuple[float, float, float]


def contents(rates: Rates, inflow: float, thresholds: Thresholds, crystal_time: float) -> Contents:
    """Steady state, inflow × residence time, for identical experiences that enter at c = 0; `inflow` per unit of t."""
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
    """U_sel = −ln(1 − τ_L)·episode/(α·N_L): a lower utility is evicted before glass by a FIFO liquid store.

    For information only: with lowest-utility eviction, survivors crystallize far below it.
    """
    return np.asarray(-np.log1p(-tau_L) * np.asarray(episode) / (np.asarray(alpha) * np.asarray(liquid_capacity)))


def uniform_utilities(level: Array) -> Array:
    """Quantile function of utilities spread evenly over [0, 1]."""
    return level


@dataclass(frozen=True, slots=True)
class Requirements:
    """Requirements for a memory; `design` turns them into parameters. Times are in environment steps."""

    inflow: float = 1.0
    """Experiences per environment step."""
    capacity: int = 100_000
    """Slots of the whole memory."""
    episode: float = 200.0
    """Environment steps between consolidations."""
    lifetime: float = 1_000_000.0
    """Steps during which every crystal is kept; later the store is a random sample of all crystals ever formed."""
    maturity: float | None = None
    """Mean steps from insertion to crystal; None: the lifetime."""
    melt: float | None = None
    """Steps of permanent interference until a crystal (c = 1, U = 0) becomes glass; None: lifetime / 10."""
    spread: float = 0.01
    """Largest standard deviation of c."""
    thresholds: Thresholds = Thresholds()
    """Phase thresholds."""
    utilities: Callable[[Array], Array] = uniform_utilities
    """Quantile function of U over experiences: increasing, from [0, 1] to [0, 1]."""

    def __post_init__(self) -> None:
        for name in ("inflow", "capacity", "episode", "lifetime", "maturity", "melt", "spread"):
            if getattr(self, name) is not None and not float(non_negative(name, getattr(self, name))) > 0:
                raise ValueError(f"{name}: wanted a number > 0, got 0")
        if self.capacity <= self.arrivals:
            raise ValueError(f"capacity: wanted more than inflow × episode = {self.arrivals:g}, got {self.capacity}")
        least = self.capacity / self.inflow
        if self.lifetime + self.waiting <= least:
            raise ValueError(
                f"lifetime + maturity: wanted more than {least:g} steps (capacity / inflow; with fewer, every "
                f"experience would have to crystallize), got {self.lifetime + self.waiting:g}"
            )
        if self.waiting < self.episode:
            raise ValueError(f"maturity: wanted at least one episode of {self.episode:g} steps, got {self.waiting:g}")

    @property
    def arrivals(self) -> float:
        """Experiences that arrive between two consolidations."""
        return self.inflow * self.episode

    @property
    def waiting(self) -> float:
        """Mean steps from insertion to crystal."""
        return self.lifetime if self.maturity is None else self.maturity

    @property
    def melting(self) -> float:
        """Steps from c = 1 to glass under permanent interference."""
        return self.lifetime / 10 if self.melt is None else self.melt


@dataclass(frozen=True, slots=True)
class Design:
    """Parameters that meet `Requirements`, and what they imply. Times in environment steps, `time_unit` in experiences.

    `capacity`: liquid, glass and crystal slots, all in use from `full_after` on. `promoted`: share of experiences that
    crystallize, those of utility above `utility_floor`. `mean_c`: mean c per phase; for crystals, its limit.
    `melting_utility`: a contradicted crystal of higher utility never melts. `notes`: where the prediction is weak.
    """

    alpha: float
    beta: float
    sigma: float
    time_unit: int
    capacity: tuple[int, int, int]
    promoted: float
    utility_floor: float
    crystal_lifetime: float
    steps_to_glass: float
    steps_to_crystal: float
    mean_c: tuple[float, float, float]
    melting_utility: float
    thresholds: Thresholds
    notes: tuple[str, ...]

    @property
    def full_after(self) -> float:
        """Steps from an empty memory until the crystal store is full; until then no crystal is dropped."""
        return self.steps_to_crystal + self.crystal_lifetime

    def retained(self, steps: ArrayLike) -> Array:
        """Share of all crystals formed in the first `steps` that is still held then: lifetime/(steps − maturity).

        A full store keeps the smallest random keys, so this is the probability for every crystal ever formed, old or
        new; one held at s is still held at t > s with probability retained(t)/retained(s). There is no typical
        lifetime: crystals held at s have a half-life of s − maturity, the time during which crystals have formed.
        (With overflow "frozen" the first crystals stay, and none is admitted after `full_after`.)
        """
        formed = np.asarray(non_negative("steps", steps)) - self.steps_to_crystal
        return np.asarray(self.crystal_lifetime / np.maximum(formed, self.crystal_lifetime))

    def params(self, **changes: Any) -> CrystalParams:
        """`CrystalParams` for a memory of the required capacity; all others are those of `repaired`."""
        given: dict[str, Any] = {
            "alpha": self.alpha,
            "beta": self.beta,
            "sigma": self.sigma,
            "tau_L": self.thresholds.tau_L,
            "tau_C": self.thresholds.tau_C,
            "band_C": self.thresholds.band,
            "capacity": self.capacity,
            "time_unit": self.time_unit,
            "every": self.time_unit,
        }
        return CrystalParams.repaired(**{**given, **changes})


def design(needs: Requirements) -> Design:
    """Rates and capacities such that all phases are just full and the crystal store fills up within the lifetime.

    By Little's law, capacity = arrivals·(1 − promoted) + inflow·promoted·(maturity + lifetime): the arrivals of one
    episode stay in liquid until they are evaluated, even those evicted right afterwards. Liquid evicts the lowest
    utilities, so the best `promoted` share survives. Without interference, an experience of utility U takes
    −ln(1 − τ)/(αU) to reach τ, plus half an episode on average until the next consolidation. α follows from the
    maturity and the mean of 1/U over survivors, β from the melting time, σ from the spread.
    """
    promoted = (needs.capacity - needs.arrivals) / (needs.inflow * (needs.waiting + needs.lifetime) - needs.arrivals)
    flow, unseen = needs.inflow * promoted, needs.arrivals * (1 - promoted)
    floor, slowness = _survivors(needs.utilities, promoted)
    to_glass, to_crystal = -np.log1p(-needs.thresholds.tau_L), -np.log1p(-needs.thresholds.tau_C)
    climb = needs.waiting - needs.episode / 2
    alpha = to_crystal * slowness * needs.episode / climb
    reach_glass = climb * to_glass / to_crystal + needs.episode / 2
    crystal, glass = max(1, round(flow * needs.lifetime)), round(flow * (needs.waiting - reach_glass))
    liquid = needs.capacity - crystal - glass
    edge = needs.thresholds.tau_C - needs.thresholds.band
    beta = -np.log(edge) * needs.episode / needs.melting
    low, middle, high = contents(Rates(alpha * floor, 0.0, 0.0), 1.0, needs.thresholds, 0.0).mean
    return Design(
        alpha=float(alpha),
        beta=float(beta),
        sigma=needs.spread * _noise_of_unit_spread(float(alpha) * floor),
        time_unit=max(1, round(needs.arrivals)),
        capacity=(liquid, glass, crystal),
        promoted=promoted,
        utility_floor=floor,
        crystal_lifetime=needs.lifetime,
        steps_to_glass=float(reach_glass),
        steps_to_crystal=needs.waiting,
        mean_c=(low * (1 - unseen / liquid), middle, high),
        melting_utility=float(min(1.0, beta * edge / (alpha * (1 - edge)))),
        thresholds=needs.thresholds,
        notes=_notes(needs, reach_glass, liquid),
    )


def _noise_of_unit_spread(gain: float) -> float:
    """σ/spread for c rising from 0 without loss.

    The variance σ²/gain·(x − x² + x²·ln x), x = 1 − mean, is largest where 1 − x + 2x·ln x = 0; there it is
    σ²/gain·x(1 − x)/2.
    """
    x = np.exp(0.5 + lambertw(-np.exp(-0.5) / 2, -1).real)
    return float(np.sqrt(2 * gain / (x * (1 - x))))


def _survivors(utilities: Callable[[Array], Array], promoted: float) -> tuple[float, float]:
    """Lowest utility in the best `promoted` share, and the mean of 1/U over that share."""
    node, weight = np.polynomial.legendre.leggauss(64)
    level = 1 - promoted + promoted * (node + 1) / 2
    best = unit("utilities", utilities(level))
    floor = float(utilities(np.array(1 - promoted)))
    if floor <= 0:
        raise ValueError(
            "utilities: wanted > 0 over the promoted share, got 0: an experience of utility 0 never crystallizes"
        )
    return floor, float(np.sum(weight / best) / 2)


def _notes(needs: Requirements, reach_glass: float, liquid: int) -> tuple[str, ...]:
    notes = []
    if reach_glass < 5 * needs.episode:
        notes.append(f"glass is reached in {reach_glass / needs.episode:.1f} consolidations: consolidate more often")
    if needs.arrivals > 0.3 * liquid:
        notes.append("one episode fills more than a third of the liquid slots: occupancy will fluctuate")
    if needs.melting > needs.lifetime:
        notes.append("melting takes longer than the lifetime: the store is full before contradicted crystals melt")
    return tuple(notes)
