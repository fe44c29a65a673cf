"""`Crystallization`: the constants of the law, with every result as a method."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, overload

import numpy as np
from numpy.typing import ArrayLike

from crystalrl.lifecycle import Lifecycle
from crystalrl.theory import finite_volume, fluctuations, landscape, moments, passage, sizing, transient
from crystalrl.theory.fluctuations import CorrelationTimes, Fluctuation, Mixture, Moments
from crystalrl.theory.forgetting import Forgetting, forgetting
from crystalrl.theory.path import Schedule
from crystalrl.theory.rates import SMALLEST_SIGMA, Array, Rates, non_negative, unit
from crystalrl.theory.stationary import Occupancy, Stationary, occupancy, stationary
from crystalrl.theory.transient import Answer

DEFAULT_OPTIONS = finite_volume.Options()


@dataclass(frozen=True, slots=True)
class Crystallization:
    """dc = [αU(1 − c) − (βI + leak)c]dt + σ√(c(1 − c))dW with constant coefficients (eq. sde).

    Rates are per unit of t; a consolidation takes Δt = 1. The constants are scalars; method arguments broadcast.
    Invariant: α, β, σ, leak ≥ 0 and finite, U and I in [0, 1].
    """

    alpha: float = 0.05
    beta: float = 0.005
    sigma: float = 0.005
    utility: float = 0.5
    interference: float = 0.1
    leak: float = 0.0

    def __post_init__(self) -> None:
        for name in ("alpha", "beta", "sigma", "leak", "utility", "interference"):
            value = getattr(self, name)
            if np.ndim(value) != 0:
                raise TypeError(f"{name}: wanted one number, got an array of shape {np.shape(value)}")
            check = unit if name in ("utility", "interference") else non_negative
            object.__setattr__(self, name, float(check(name, value)))
        if 0 < self.sigma < SMALLEST_SIGMA:
            raise ValueError(f"sigma: wanted 0 or at least {SMALLEST_SIGMA:g}, got {self.sigma:g}")

    @classmethod
    def of(cls, params: Lifecycle, utility: float = 0.5, interference: float = 0.1) -> Crystallization:
        """From any object with alpha, beta, sigma and leak; raises for per-lane values.

        With `melt` (μ), dc = αU(1−c)(1−W) − (μW + leak)c is the same law with the utility U(1−W) and β = μ.
        """
        values, melt = {}, getattr(params, "melt", None)
        for name in ("alpha", "beta", "sigma", "leak"):
            value = melt if name == "beta" and melt is not None else getattr(params, name)
            if np.ndim(value) != 0:
                shape = np.shape(value)
                raise TypeError(f"{name}: wanted one number, that of a single lane, got one value per lane {shape}")
            values[name] = float(value)
        free = 1.0 if melt is None else 1 - float(unit("interference", interference))
        return cls(utility=float(unit("utility", utility)) * free, interference=interference, **values)

    @property
    def rates(self) -> Rates:
        """gain = αU, loss = βI + leak, sigma."""
        return Rates(self.alpha * self.utility, self.beta * self.interference + self.leak, self.sigma)

    def mean(self, t: ArrayLike, c0: ArrayLike) -> Array:
        """E[c(t)] from c0."""
        return _scalar(moments.mean(self.rates, non_negative("t", t), unit("c0", c0)))

    def variance(self, t: ArrayLike, c0: ArrayLike, v0: ArrayLike = 0.0) -> Array:
        """Var[c(t)] from mean c0 and variance v0, which cannot exceed c0(1 − c0)."""
        start, spread = unit("c0", c0), non_negative("v0", v0)
        if np.any(spread > start * (1 - start) * (1 + 1e-12)):
            raise ValueError(
                "v0: wanted at most c0(1 − c0), got more than the largest variance on [0, 1] with that mean"
            )
        return _scalar(moments.variance(self.rates, non_negative("t", t), start, spread))

    def stationary(self, c0: float | None = None) -> Stationary:
        """The stationary distribution; c0 is needed only if gain = loss = 0."""
        return stationary(self.rates, c0)

    def occupancy(self, tau_L: float = 0.3, tau_C: float = 0.7, c0: float | None = None) -> Occupancy:
        """Long-run share of time in each phase."""
        return occupancy(self.stationary(c0), tau_L, tau_C)

    @overload
    def cdf(self, x: ArrayLike, t: ArrayLike, c0: ArrayLike, full_output: Literal[False] = False) -> Array: ...
    @overload
    def cdf(self, x: ArrayLike, t: ArrayLike, c0: ArrayLike, full_output: Literal[True]) -> Answer: ...
    def cdf(self, x: ArrayLike, t: ArrayLike, c0: ArrayLike, full_output: bool = False) -> Array | Answer:
        """P[c(t) ≤ x]; with `full_output` also the method and its estimated error."""
        return _value_or_answer(transient.cdf(self.rates, x, t, c0), full_output)

    @overload
    def pdf(self, x: ArrayLike, t: ArrayLike, c0: ArrayLike, full_output: Literal[False] = False) -> Array: ...
    @overload
    def pdf(self, x: ArrayLike, t: ArrayLike, c0: ArrayLike, full_output: Literal[True]) -> Answer: ...
    def pdf(self, x: ArrayLike, t: ArrayLike, c0: ArrayLike, full_output: bool = False) -> Array | Answer:
        """Density of the continuous part of c(t)."""
        return _value_or_answer(transient.pdf(self.rates, x, t, c0), full_output)

    def evolve(
        self,
        times: ArrayLike,
        c0: float,
        utility: Callable[[float], float] | None = None,
        interference: Callable[[float], float] | None = None,
        options: finite_volume.Options = DEFAULT_OPTIONS,
    ) -> finite_volume.Evolution:
        """Distribution of c at `times` by finite volumes; U and I may be functions of time with values in [0, 1]."""
        utility = utility or (lambda _: self.utility)
        interference = interference or (lambda _: self.interference)
        schedule = Schedule(
            lambda t: self.alpha * float(unit("utility(t)", utility(t))),
            lambda t: self.beta * float(unit("interference(t)", interference(t))) + self.leak,
            self.sigma,
        )
        return finite_volume.solve(schedule, c0, times, options)

    def time_to(self, tau: ArrayLike, c0: ArrayLike) -> Array:
        """Time at which the mean path reaches τ; ∞ if it never does."""
        return _scalar(passage.time_to(self.rates, tau, c0))

    def mean_first_passage(self, tau: ArrayLike, c0: ArrayLike) -> Array:
        """Mean first-passage time to τ, from below or from above."""
        return _scalar(passage.mean_first_passage(self.rates, tau, c0))

    def log10_mean_first_passage(self, tau: ArrayLike, c0: ArrayLike) -> Array:
        """log₁₀ of the mean first-passage time; finite even beyond 1e308."""
        return _scalar(passage.log_mean_first_passage(self.rates, tau, c0) / np.log(10))

    @overload
    def survival(self, tau: ArrayLike, t: ArrayLike, c0: ArrayLike, full_output: Literal[False] = False) -> Array: ...
    @overload
    def survival(self, tau: ArrayLike, t: ArrayLike, c0: ArrayLike, full_output: Literal[True]) -> Answer: ...
    def survival(self, tau: ArrayLike, t: ArrayLike, c0: ArrayLike, full_output: bool = False) -> Array | Answer:
        """P[c has not reached τ by time t]."""
        return _value_or_answer(passage.survival(self.rates, tau, t, c0), full_output)

    def absorption_time(self, c0: ArrayLike) -> Array:
        """Mean time to absorption at an end; ∞ if neither end absorbs."""
        return _scalar(passage.absorption_time(self.rates, c0))

    def forgetting(self, T: ArrayLike, tau: ArrayLike, c0: ArrayLike) -> Forgetting:
        """P[c(T) < τ] and P[c < τ at some time ≤ T], with bounds."""
        return forgetting(self.rates, T, tau, c0)

    def independent_moments(self, noise: Fluctuation, dt: float = 1.0) -> Moments:
        """Stationary moments if U and I are redrawn at each step of length dt."""
        return fluctuations.independent_moments(self.alpha, self.beta, self.rates, noise, dt)

    def effective_diffusion(self, c: ArrayLike, noise: Fluctuation, times: CorrelationTimes) -> Array:
        """D_eff(c) for short correlation times."""
        return _scalar(fluctuations.effective_diffusion(self.alpha, self.beta, self.rates, noise, times, c))

    def frozen(self, utilities: ArrayLike, interferences: ArrayLike, weights: ArrayLike) -> Mixture:
        """Distribution over experiences that each keep a constant (U_i, I_i)."""
        pairs = np.broadcast(unit("utilities", utilities), unit("interferences", interferences))
        parts = [Rates(self.alpha * u, self.beta * i + self.leak, self.sigma) for u, i in pairs]
        return fluctuations.mixture(parts, weights)

    def potential(self, c: ArrayLike) -> landscape.Potential:
        """Langevin, Gibbs and quasi-potential at c."""
        return landscape.potential(self.rates, c)

    def relaxation(self, c0: ArrayLike) -> landscape.Relaxation:
        """Rate, amplitude and mixing time from c0."""
        return landscape.relaxation(self.rates, c0)

    def contents(self, inflow: float, thresholds: sizing.Thresholds, crystal_time: float) -> sizing.Contents:
        """Contents of each phase by Little's law; inflow per unit of t, crystal_time in units of t."""
        return sizing.contents(self.rates, inflow, thresholds, crystal_time)


def _scalar(value: Array) -> Array:
    """A zero-dimensional array becomes a NumPy scalar."""
    scalar: Array = np.asarray(value)[()]
    return scalar


def _value_or_answer(answer: Answer, full_output: bool) -> Array | Answer:
    return answer if full_output else _scalar(answer.value)
