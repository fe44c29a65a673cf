"""All published sequences of tasks, by name."""

from __future__ import annotations

from functools import cache

from crystalrl.suites import atari, metaworld, mujoco
from crystalrl.suites.benchmark import Benchmark
from crystalrl.suites.tasks import Sequence

FAMILIES = (metaworld, mujoco, atari)
ABOUT = {**metaworld.ABOUT, **mujoco.ABOUT, **atari.ABOUT}
"""Name → what it is, in a line."""


@cache
def benchmark(name: str) -> Benchmark | None:
    """The sequence of this name; None if there is none."""
    return next((found for family in FAMILIES if (found := family.benchmark(name)) is not None), None)


def sequence_of(suite: str | Sequence) -> Sequence | None:
    """The tasks of a suite, if they are given one by one: the user's own, or those of a benchmark."""
    if isinstance(suite, Sequence):
        return suite
    found = benchmark(suite)
    return None if found is None else found.tasks
