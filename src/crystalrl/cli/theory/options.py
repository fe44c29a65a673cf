"""Options of each command, as frozen dataclasses."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from crystalrl.params import CrystalParams
from crystalrl.params_checks import floats
from crystalrl.study.registry import presets
from crystalrl.theory import Crystallization, Requirements, Tasks, Thresholds
from crystalrl.theory.claims import Verdict
from crystalrl.turnover import steps_between


@dataclass(frozen=True)
class Show:
    """Summarise one law: limit, times, forgetting, the path of c, and what happens to an experience in a memory."""

    preset: str = "anchored"
    """Preset of the parameters that are not given; `anchored` is the recommended one."""
    slots: int = 100_000
    """Slots of the memory."""
    episode: int | None = None
    """Environment steps of an episode, where its end makes a consolidation due (the paper)."""
    alpha: float | None = None
    """Consolidation rate per unit of t."""
    beta: float | None = None
    """Decrystallization rate under interference, where the preset does not melt."""
    melt: float | None = None
    """Melting rate under interference."""
    sigma: float | None = None
    """Noise; 0: none."""
    leak: float | None = None
    """Loss rate without interference."""
    tau_L: float | None = None
    """Threshold between liquid and glass."""
    tau_C: float | None = None
    """Threshold between glass and crystal."""
    utility: float = 0.5
    """Utility U in [0, 1]."""
    interference: float = 0.0
    """Interference in [0, 1]."""
    c0: float = 0.0
    """Initial c."""
    horizon: float | None = None
    """Last time shown; default: five relaxation times."""
    plot: Path | None = None
    """File for the figure: .png or .svg."""

    @property
    def params(self) -> CrystalParams:
        """The preset with the changes that are given."""
        known = presets()
        if self.preset not in known:
            raise ValueError(f"preset: wanted one of {', '.join(known)}, got {self.preset!r}")
        names = ("alpha", "beta", "melt", "sigma", "leak", "tau_L", "tau_C")
        changes = {name: getattr(self, name) for name in names if getattr(self, name) is not None}
        made: CrystalParams = getattr(CrystalParams, self.preset)(**changes)
        return made

    @property
    def law(self) -> Crystallization:
        return Crystallization.of(self.params, self.utility, self.interference)

    @property
    def thresholds(self) -> Thresholds:
        params = self.params
        return Thresholds(floats(params.tau_L)[0], floats(params.tau_C)[0], band=0.0)

    @property
    def steps(self) -> float:
        """Environment steps per unit of t."""
        params = self.params
        if params.clock == "steps":
            return params.unit(self.slots)
        return steps_between(params, self.slots, self.episode) / params.delta_t

    @property
    def end(self) -> float:
        """The last time shown; the horizon must be > 0."""
        if self.horizon is not None:
            if not self.horizon > 0:
                raise ValueError(f"horizon: wanted a number > 0, got {self.horizon:g}")
            return self.horizon
        rate = self.law.rates.rate + self.law.rates.noise / 2
        return 5.0 / rate if rate > 0 else 100.0

    @property
    def words(self) -> str:
        """What becomes of an experience that arrives with c = 0."""
        return self.params.describe(self.slots, self.utility, self.interference, episode=self.episode)


@dataclass(frozen=True)
class DesignMemory:
    """Find parameters for a memory: the recommended ones for tasks, or rates for the paper's rule."""

    preset: Literal["anchored", "paper"] = "anchored"
    """`anchored`: slots, task, tasks, crystals and melts-within count; `paper`: all other options."""
    needs: Tasks = field(default_factory=Tasks)
    paper: Requirements = field(default_factory=Requirements)

    def __post_init__(self) -> None:
        other = self.needs != Tasks() if self.preset == "paper" else self.paper != Requirements()
        if other:
            raise ValueError(
                f"options: wanted those of the preset {self.preset}, got some of another (--help lists them)"
            )


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
