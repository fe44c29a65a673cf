"""Options of each command: one frozen dataclass, read by the command line and by tests alike."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from crystalrl.theory import Crystallization, Thresholds
from crystalrl.theory.claims import Verdict


@dataclass(frozen=True)
class Show:
    """Summarise one law: limit, times, forgetting, and how c moves."""

    alpha: float = 0.05
    """Consolidation rate per unit of t (one consolidation)."""
    beta: float = 0.005
    """Decrystallization rate under interference."""
    sigma: float = 0.005
    """Noise; 0 for none."""
    utility: float = 0.5
    """U in [0, 1]."""
    interference: float = 0.1
    """I in [0, 1]."""
    leak: float = 0.0
    """Loss rate that acts without interference."""
    c0: float = 0.0
    """Where c starts."""
    tau_L: float = 0.3
    """Liquid below, glass above."""
    tau_C: float = 0.7
    """Crystal above."""
    horizon: float | None = None
    """Last time shown; by default five relaxation times."""
    steps: float = 200.0
    """Environment steps per unit of t, for the times given in steps."""
    plot: Path | None = None
    """Write the figure here: .png or .svg."""

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
    """Every claim of the paper with its verdict, evidence computed now, and a replacement."""

    verdict: Verdict | None = None
    """Only claims with this verdict."""
    write: Path | None = None
    """Write the ledger as Markdown here instead of printing it."""


@dataclass(frozen=True)
class Guide:
    """Write the page on choosing parameters and its figures; every number on it is computed."""

    write: Path = Path("docs/choosing-parameters.md")
    """The page; figures go to a folder `figures` beside it."""
