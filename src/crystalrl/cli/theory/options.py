"""Options of each command, as frozen dataclasses."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from crystalrl.theory import Crystallization, Thresholds
from crystalrl.theory.claims import Verdict


@dataclass(frozen=True)
class Show:
    """Summarise one law: limit, times, forgetting, and the path of c."""

    alpha: float = 0.05
    """Consolidation rate per unit of t (one consolidation)."""
    beta: float = 0.005
    """Decrystallization rate under interference."""
    sigma: float = 0.005
    """Noise; 0: none."""
    utility: float = 0.5
    """Utility U in [0, 1]."""
    interference: float = 0.1
    """Interference I in [0, 1]."""
    leak: float = 0.0
    """Loss rate without interference."""
    c0: float = 0.0
    """Initial c."""
    tau_L: float = 0.3
    """Threshold between liquid and glass."""
    tau_C: float = 0.7
    """Threshold between glass and crystal."""
    horizon: float | None = None
    """Last time shown; default: five relaxation times."""
    steps: float = 200.0
    """Environment steps per unit of t, to convert times to steps."""
    plot: Path | None = None
    """File for the figure: .png or .svg."""

    @property
    def law(self) -> Crystallization:
        return Crystallization(self.alpha, self.beta, self.sigma, self.utility, self.interference, self.leak)

    @property
    def thresholds(self) -> Thresholds:
        return Thresholds(self.tau_L, self.tau_C, band=0.0)

    @property
    def end(self) -> float:
        """The last time shown; the horizon must be > 0."""
        if self.horizon is not None:
            if not self.horizon > 0:
                raise ValueError(f"horizon must be > 0, got {self.horizon:g}")
            return self.horizon
        rate = self.law.rates.rate + self.law.rates.noise / 2
        return 5.0 / rate if rate > 0 else 100.0


@dataclass(frozen=True)
class Claims:
    """Claims of the paper, each with its place, a verdict, computed evidence, and a corrected statement."""

    verdict: Verdict | None = None
    """Show only claims with this verdict."""
    write: Path | None = None
    """Markdown file to write, instead of printing."""


@dataclass(frozen=True)
class Guide:
    """Write the page on choosing parameters and its figures; all its numbers are computed."""

    write: Path = Path("docs/choosing-parameters.md")
    """The page; figures go to the folder `figures` next to it."""
