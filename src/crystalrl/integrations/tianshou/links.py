"""Which slot holds the step after another: experiences lie in no order, but returns over several steps need one."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Slots = NDArray[np.int64]
NONE = -1


class Links:
    """Steps of one episode, forwards and backwards. Invariant: a link leads to a slot that still holds that very step,
    and back again; where it was overwritten, or is still to come, there is none.
    """

    def __init__(self, slots: int, environments: int) -> None:
        self.after, self.before = np.full(slots, NONE), np.full(slots, NONE)
        self.last = np.full(environments, NONE)
        """Slot of the latest step of each environment, while its episode goes on."""

    def write(self, slots: Slots, environments: Slots, ended: NDArray[np.bool_]) -> None:
        """New steps lie in these slots [M], one of each of M environments; what lay there is gone."""
        for there, back in ((self.after, self.before), (self.before, self.after)):
            neighbours = there[slots]
            back[neighbours[neighbours >= 0]] = NONE
            there[slots] = NONE
        self.last[np.isin(self.last, slots)] = NONE
        previous = self.last[environments]
        known = previous >= 0
        self.after[previous[known]], self.before[slots[known]] = slots[known], previous[known]
        self.last[environments] = np.where(ended, NONE, slots)

    def clear(self) -> None:
        for each in (self.after, self.before, self.last):
            each[:] = NONE

    def load(self, after: Slots) -> None:
        """Take the links of a saved buffer; episodes that were going on have no end."""
        self.clear()
        self.after[:] = after
        known = np.flatnonzero(after >= 0)
        self.before[after[known]] = known


def following(links: Slots, index: Any) -> Any:
    """The linked slot, or the same one where there is no link, as Tianshou has it at the ends of episodes."""
    found = links[index]
    return np.where(found >= 0, found, index)
