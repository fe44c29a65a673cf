"""Links between consecutive steps: slots are in no order, but n-step returns need the order of an episode."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Slots = NDArray[np.int64]
NONE = -1


class Links:
    """Slots of the next and the previous step of each slot. Invariant: `before` is the inverse of `after`; there is no
    link to a step that has been overwritten or has not been stored yet.
    """

    def __init__(self, slots: int, environments: int) -> None:
        self.after, self.before = np.full(slots, NONE), np.full(slots, NONE)
        self.last = np.full(environments, NONE)
        """Slot of the latest step of each environment whose episode has not ended."""

    def write(self, slots: Slots, environments: Slots, ended: NDArray[np.bool_]) -> None:
        """Link new steps in slots [M], one of each of M environments, and unlink the steps that they overwrite."""
        for there, back in ((self.after, self.before), (self.before, self.after)):
            linked = there[slots]
            back[linked[linked >= 0]] = NONE
            there[slots] = NONE
        self.last[np.isin(self.last, slots)] = NONE
        previous = self.last[environments]
        known = previous >= 0
        self.after[previous[known]], self.before[slots[known]] = slots[known], previous[known]
        self.last[environments] = np.where(ended, NONE, slots)

    def between(self, start: int, stop: int) -> Slots:
        """Slots of the consecutive steps from slot `start` to the one before slot `stop`."""
        found = [start]
        while found[-1] >= 0 and found[-1] != stop - 1 and len(found) <= len(self.after):
            found.append(int(self.after[found[-1]]))
        if found[-1] != stop - 1:
            raise ValueError(f"start, stop: wanted steps of one stored episode, got {start} and {stop}")
        return np.array(found)

    def clear(self) -> None:
        for each in (self.after, self.before, self.last):
            each[:] = NONE

    def load(self, after: Slots) -> None:
        """Take the links of a saved buffer; the episodes that were running when it was saved are not continued."""
        self.clear()
        self.after[:] = after
        known = np.flatnonzero(after >= 0)
        self.before[after[known]] = known


def following(links: Slots, index: Any) -> Any:
    """The linked slot, or the same slot where there is no link, as Tianshou does at the ends of episodes. Negative
    slots count from the end.
    """
    slots = np.asarray(index) % len(links)
    found = links[slots]
    return np.where(found >= 0, found, slots)[()]
