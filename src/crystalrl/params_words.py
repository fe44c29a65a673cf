"""Describes in words what the parameters of a crystal memory do to an experience, including overwriting."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from crystalrl.fates import Fates, fates
from crystalrl.lifecycle import Lifecycle
from crystalrl.params_checks import floats
from crystalrl.turnover import Array, Climb, Turnover, steps_between, turnover

SURE = 0.98
"""Where at least this share of the followed experiences agree, the text speaks of all."""
WASTE = 0.8
"""Share of the slots in use below which the text warns."""


def describe(
    params: Lifecycle,
    slots: int,
    utility: float = 0.5,
    interference: float = 0.0,
    episode: int | None = None,
    utilities: Sequence[float] | None = None,
) -> str:
    """What happens to an experience of this utility: when it becomes glass and crystal, or is overwritten.

    episode: environment steps of an episode, used with `every_episode`; utilities: those of all experiences that arrive
    (None: uniform over [0, 1]).
    """
    for name, value in (("utility", utility), ("interference", interference)):
        if not 0 <= value <= 1:
            raise ValueError(f"{name}: wanted a number from 0 to 1, got {value!r}")
    if slots < 1:
        raise ValueError(f"slots: wanted a whole number ≥ 1, got {slots}")
    outlook = Outlook.of(params, slots, utility, interference, episode, utilities)
    return "\n".join([*outlook.verdict(), *outlook.melting(), *outlook.population(), *outlook.setting()])


@dataclass(frozen=True)
class Outlook:
    """What happens to experiences of one utility in one memory."""

    params: Lifecycle
    slots: int
    utility: float
    interference: float
    episode: int | None
    spread: bool
    """Whether the utilities of all experiences are evenly spread over [0, 1]."""
    interval: float
    """Environment steps between consolidations."""
    climb: Climb
    seen: Turnover
    later: Fates
    """Fates of experiences that arrive in the long run."""
    first: Fates
    """Fates of experiences that arrive before the first consolidation."""

    @classmethod
    def of(
        cls,
        params: Lifecycle,
        slots: int,
        utility: float,
        interference: float = 0.0,
        episode: int | None = None,
        utilities: Sequence[float] | None = None,
    ) -> Outlook:
        interval = steps_between(params, slots, episode)
        climb = Climb.of(params, interval, slots, utility, interference)
        seen = turnover(params, slots, interval, utilities)
        later, first = (fates(seen, params, climb, utility, interval, first=first) for first in (False, True))
        even = utilities is None
        return cls(params, slots, utility, interference, episode, even, interval, climb, seen, later, first)

    def verdict(self) -> list[str]:
        later, first = self._fate(self.later), self._fate(self.first)
        head = f"An experience of utility {self.utility:g} under interference {self.interference:g}"
        if later == first or self._same():
            return [f"{head}:", *later]
        return [f"{head}, once the memory is full:", *later, "One that arrives before the first consolidation:", *first]

    def _same(self) -> bool:
        """Whether the first experiences differ from later ones only in the times."""
        later, first = self.later, self.first
        shares = ("glass", "crystal", "lost")
        alike = all(_certainty(later.share(what)) == _certainty(first.share(what)) for what in shares)
        return alike and bool(later.crowded.any() == first.crowded.any())

    def _fate(self, fate: Fates) -> list[str]:
        """One line for each thing that happens to more than a few of the experiences."""
        if not self.params.phases:
            return ["  never becomes glass: phases are off"]
        target, glass = self.climb.target, fate.glass < math.inf
        low, high = floats(self.params.tau_L)[0], floats(self.params.tau_C)[0]
        never = "  never becomes {}: c tends to {:.3f}, {} begins above {:g}"
        gone = (fate.lost < math.inf) & ~glass
        lines = [
            never.format("glass", target, "glass", low) if target <= low else "",
            self._line("becomes glass", fate.glass, glass),
            self._line("is overwritten", fate.lost, gone & ~fate.crowded, ", before it becomes glass" * (target > low)),
            self._line("is evicted", fate.lost, gone & fate.crowded, " instead of becoming glass: glass is full"),
            self._line("becomes crystal", fate.crystal, fate.crystal < math.inf),
            self._line("is evicted", fate.lost, glass & fate.crowded, ": glass is full"),
            never.format("crystal", target, "crystal", high) if low < target <= high else "",
            f"  never becomes crystal: {self._obstacle(fate)}" if target > high and not fate.share("crystal") else "",
            f"  c tends to {target:.3f}",
        ]
        return [line for line in lines if line]

    def _line(self, verb: str, time: Array, which: NDArray[np.bool_], more: str = "") -> str:
        share = float(which.mean())
        if _certainty(share) == 0:
            return ""
        often = "" if _certainty(share) == 2 else f" in {share:.0%} of cases,"
        return f"  {verb}{often} after about {self._time(float(time[which].mean()))}{more}"

    def _obstacle(self, fate: Fates) -> str:
        if fate.refused.any():
            return "the crystal store is full and admits no more"
        return "glass is full of more useful experiences" if fate.crowded.any() else "it is overwritten before"

    def _time(self, steps: float) -> str:
        """A time in consolidations and environment steps."""
        number = steps / self.interval
        count = f"{number:,.0f}" if number >= 10 else f"{number:.1f}"
        if self._counts_episodes and self.episode is None:
            return f"{count} consolidations (episodes)"
        return f"{float(f'{steps:.3g}'):,.0f} environment steps ({count} consolidations)"

    @property
    def _counts_episodes(self) -> bool:
        return bool(self.params.every_episode and self.params.clock == "calls")

    def melting(self) -> list[str]:
        """How long a crystal of c = 1 takes to melt under the interference."""
        if self.interference == 0:
            return []
        lines, band = [], self.params.band_C
        if band is not None:
            lines.append(self._melts("glass", floats(self.params.tau_C)[0] - band))
            lines.append(self._melts("liquid", floats(self.params.tau_L)[0] - self.params.band_L))
        else:
            lines.append("A crystal never becomes glass again (band_C is None).")
        if self.params.tau_evict is not None and self.interference == 1:
            lines.append(f"A crystal contradicted in {self.params.tau_evict} consecutive consolidations is evicted.")
        return lines

    def _melts(self, phase: str, below: float) -> str:
        number = float(self.climb.consolidations(below, 1.0, start=1.0)) * self.params.slices
        if math.isinf(number):
            return f"A crystal (c = 1) never becomes {phase} again: c stays above {below:.3g}."
        return f"A crystal (c = 1) becomes {phase} again after {self._time(number * self.interval)}."

    def population(self) -> list[str]:
        glass, crystal = self.seen.shares
        counts = self.seen.counts[-self.seen.cycle :].mean(0) * self.slots
        held = ", ".join(f"{n:,.0f} {name}" for n, name in zip(counts, ("liquid", "glass", "crystal"), strict=True))
        whose = "evenly spread utilities" if self.spread else "the given utilities"
        lines = [
            f"In the long run, of all experiences ({whose}, no interference), {glass:.0%} become glass, {crystal:.0%} "
            f"crystal; the slots hold {held}."
        ]
        if self.seen.full_after is not None:
            then = "it admits no more" if self.params.overflow == "frozen" else "it is a random sample of all crystals"
            lines.append(f"The crystal store is full after about {self._time(self.seen.full_after)}; then {then}.")
        if self.params.borrow and self.seen.used < WASTE:
            empty = f"{1 - self.seen.used:.0%} of the slots stay empty"
            lines.append(
                f"{empty}: nearly all crystallize, and the crystal store drops them. A longer time_unit helps."
            )
        if crystal == 0 and self.seen.full_after is None:
            lines.append("No crystal forms: use more slots, a larger alpha, or consolidate more often.")
        return lines

    def setting(self) -> list[str]:
        params = self.params
        liquid, glass, crystal = params.caps(self.slots)
        spare = self.slots - liquid - glass - crystal
        room = ", and liquid borrows what glass and crystal leave empty." if params.borrow else "."
        room = f", {spare:,} left free by each consolidation{room}" if spare else room
        ends = " and at the end of each episode" if params.every_episode else ""
        every = f"every {params.interval(self.slots):,} environment steps{ends}"
        lines = [
            f"Slots: {liquid:,} liquid, {glass:,} glass, {crystal:,} crystal{room}",
            f"Consolidation {every}; nothing moves before the first.",
        ]
        if params.every_episode and self.episode is None:
            lines.append("Overwriting is computed without episodes that end earlier; give `episode`, their length.")
        if params.settle is not None:
            lines.append(
                "Outputs are taken to have settled (factor 1); with anchors, times are longer while they move."
            )
        return lines


def _certainty(share: float) -> int:
    """0: none, 1: some, 2: all."""
    return 0 if share <= 1 - SURE else 2 if share >= SURE else 1
