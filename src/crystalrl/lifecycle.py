"""The part of the parameters that says how fast experiences crystallize and melt, and how many are kept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from crystalrl.lanes import PerLane
from crystalrl.params_checks import floats


@dataclass(frozen=True)
class Lifecycle:
    """Rates, thresholds, capacity and time. `CrystalParams` adds what the rates depend on, and what c is used for."""

    alpha: PerLane = 0.2
    """α, consolidation rate per unit of time (eq. sde)."""
    beta: PerLane = 0.005
    """β, decrystallization rate of an experience under interference (eq. sde)."""
    sigma: PerLane = 0.005
    """σ, noise coefficient (eq. sde); 0 makes c deterministic."""
    leak: PerLane = 0.0
    """β₀, decay rate without interference, which makes c* depend on the utility. An extension of the paper."""
    melt: PerLane | None = 1.0
    """μ, melting rate: dc = αU(1−c)(1−W) − μ·c·W, with W the interference. None: the paper's form, −β·c·I."""
    settle: PerLane | None = 0.3
    """g: α is multiplied by exp(−output drift / (g·output spread)), so that outputs must settle first. None: off.
    Without anchors it has no effect."""

    tau_L: PerLane = 0.3
    """τ_L, the c above which liquid becomes glass."""
    tau_C: PerLane = 0.7
    """τ_C, the c above which glass becomes crystal."""
    band_L: float = 0.05
    """Hysteresis: glass becomes liquid again below τ_L − band_L."""
    band_C: float | None = 0.05
    """Hysteresis: crystal becomes glass again below τ_C − band_C. None: never (Algorithm 1 has no such demotion)."""
    tau_evict: int | None = None
    """A crystal under interference for this many consecutive consolidations is evicted; at most 255. None: off."""

    capacity: tuple[float, float, float] = (6.0, 2.0, 8.0)
    """Shares of the slots for liquid, glass and crystal."""
    spare: float = 0.0
    """Share of the slots that a consolidation leaves free for what arrives until the next one, which then evicts by
    utility, new ones included (the paper). Without a free slot, `add` overwrites by the last known utility."""
    borrow: bool = True
    """Whether liquid also uses the slots that glass and crystal leave empty. False: only its share (the paper)."""
    phases: bool = True
    """Whether experiences change phase. False: one buffer (a row of the paper's ablation); c moves, phases do not."""
    overflow: Literal["reservoir", "frozen"] = "reservoir"
    """If the crystal store is full: `reservoir` keeps a uniform sample of all crystals, `frozen` admits no more."""

    integrator: Literal["beta", "euler"] = "beta"
    """Matched Beta (exact mean and variance for any step) or Euler–Maruyama with clipping (the paper)."""
    clock: Literal["steps", "calls"] = "steps"
    """Whether time is environment steps / time_unit, or `delta_t` per call of `consolidate` (the paper)."""
    delta_t: float = 1.0
    """Δt of a consolidation with clock="calls"."""
    time_unit: int | None = None
    """Environment steps per unit of time. None: a tenth of the capacity, between 200 and 2,000."""
    every: int | None = None
    """Environment steps between consolidations. None: one time_unit."""
    every_episode: bool = False
    """Whether the end of an episode also makes a consolidation due."""
    slices: int = 1
    """1: each consolidation updates all experiences; n: it updates one n-th of them in turn, with its own time step."""

    def refuse_inconsistent(self) -> None:
        """Raise ValueError for settings that contradict each other."""
        for low, high in self._by_lane("tau_L", "tau_C"):
            if low >= high:
                raise ValueError(f"tau_L, tau_C: wanted tau_L < tau_C, got {low} and {high}")
        if self.tau_evict is not None and self.tau_evict > 255:
            raise ValueError(f"tau_evict: wanted at most 255 (the counter is one byte), got {self.tau_evict}")
        if self.spare and self.borrow:
            raise ValueError(f"spare: wanted 0 where liquid borrows every empty slot (borrow), got {self.spare}")
        if self.integrator == "euler":
            loss = "beta" if self.melt is None else "melt"
            for rates in self._by_lane("alpha", loss, "leak"):
                if sum(rates) * self._longest_step > 1 + 1e-9:
                    step = f"Euler steps of {self._longest_step:g}"
                    raise ValueError(f"alpha, {loss}, leak: wanted a sum ≤ 1 / Δt for {step}, got {rates}")

    @property
    def _longest_step(self) -> float:
        """Δt of a consolidation that runs as soon as it is due, in the smallest memory."""
        if self.clock == "calls":
            return self.slices * self.delta_t
        if self.every is None:
            return self.slices
        return self.slices * self.every / (self.time_unit or 200)

    def _by_lane(self, *names: str) -> list[tuple[float, ...]]:
        """Values of several fields, lane by lane; a scalar applies to every lane."""
        lists = [floats(getattr(self, name)) for name in names]
        lanes = max(len(each) for each in lists)
        if any(len(each) not in (1, lanes) for each in lists):
            counts = [len(each) for each in lists]
            raise ValueError(f"{', '.join(names)}: wanted the same number of lanes in each, got {counts}")
        return list(zip(*(each * lanes if len(each) == 1 else each for each in lists), strict=True))

    def unit(self, slots: int) -> int:
        """Environment steps per unit of time in a memory with this many slots."""
        return self.time_unit if self.time_unit is not None else round(min(max(0.1 * slots, 200), 2000))

    def interval(self, slots: int) -> int:
        """Environment steps between consolidations in a memory with this many slots."""
        return self.every if self.every is not None else self.unit(slots)

    def caps(self, slots: int) -> tuple[int, int, int]:
        """Slots for liquid, glass and crystal; they sum to `slots` without the spare ones; liquid has at least one."""
        slots -= int(self.spare * slots)
        if not self.phases:
            return slots, 0, 0
        glass, crystal = (round(share / sum(self.capacity) * (slots - 1)) for share in self.capacity[1:])
        crystal = min(crystal, slots - 1 - glass)
        return slots - glass - crystal, glass, crystal
