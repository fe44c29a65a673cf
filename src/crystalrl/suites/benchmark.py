"""A published sequence of tasks from a package that is installed separately."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from crystalrl.packages import require
from crystalrl.suites.sizes import Sizes
from crystalrl.suites.tasks import Sequence


@dataclass(frozen=True)
class Benchmark:
    """Tasks, and what is known about them without the package."""

    tasks: Sequence
    sizes: Sizes
    note: str
    """What the tasks and the score are, in a sentence or two."""
    extra: str
    """The extra of this project that installs the packages."""
    packages: tuple[str, ...]
    episode: int
    """Maximum number of steps of an episode."""
    seed: int | None = None
    """Seed of the permutation of the package's order that is order 0; order n is then the permutation by seed n.
    None: order 0 is as listed, and the other orders are those of any suite."""

    def check_installed(self, name: str) -> None:
        """Raise, with the pip line, if a package is missing."""
        try:
            require(f"suite {name}", *self.packages, extra=self.extra)
        except ModuleNotFoundError as error:
            raise ValueError(str(error)) from error

    def order(self, number: int) -> tuple[int, ...] | None:
        """The stages in one of the permutations by seed; None if the orders are those of any suite."""
        if self.seed is None:
            return None
        own, count = permuted(self.seed, len(self.tasks.tasks)), len(self.tasks.tasks)
        return tuple(own.index(task) for task in permuted(number or self.seed, count))


def permuted(seed: int, count: int) -> tuple[int, ...]:
    """NumPy's random permutation of 0 … count − 1."""
    return tuple(np.random.default_rng(seed).permutation(count).tolist())
