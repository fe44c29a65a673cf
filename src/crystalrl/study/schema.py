"""The columns of the stored tables."""

from __future__ import annotations

from crystalrl.memory.crystal.report import SEEN

_LANE = {"cell": "s", "method": "s", "seed": "i"}
TABLES = {
    "memory": {**_LANE, "step": "i", "task": "i", "nbytes": "f"},
    "curves": {**_LANE, "task": "i", "step": "i", "score": "f"},
    "scores": {**_LANE, "after": "i", "task": "i", "score": "f"},
}
"""Columns of each table, in writing order: s text, i integer, f float. The memory table also has a float column for
each name in a consolidation's report, NaN where a memory reports nothing.
"""

_STATE = {"slot": "i", "number": "i", "arrived": "i", "phase": "i"}
_STATE |= dict.fromkeys(("c", "utility", "error", "interference"), "f")
DETAILS = {
    "histograms": {**_LANE, "step": "i", "task": "i", "phase": "i", "bin": "i", "count": "i"},
    "followed": {**_LANE, "step": "i", "task": "i", **_STATE, **dict.fromkeys(SEEN, "f")},
    "contents": {**_LANE, "step": "i", "task": "i", **_STATE, "reward": "f", "discount": "f", "value": "f"},
}
"""Tables about the memory of the first seed of every cell, if it has phases: c in ten bins by phase at every
consolidation; the state of some slots at every consolidation (arrived: the task during which the experience arrived);
and some of the contents at the end of every task, with the observation (or, if it is long, a random projection of it)
as v0, v1, … and the action as a0, a1, … value: the largest of the anchored outputs, NaN if they are a policy.
episode_return: the sum of the rewards of the episode that the experience is from, undiscounted, NaN if it had not
ended. Older results lack the last and the action.
"""
ALL = {**DETAILS, **TABLES}
