"""The events that a run yields."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from torch import Tensor

from crystalrl.study.contents import Contents
from crystalrl.suites.workers import Incident


@dataclass(frozen=True)
class Built:
    """The run is set up; `nbytes`: bytes of memory and method per lane."""

    nbytes: int


@dataclass(frozen=True)
class Progress:
    """Position of a run: the stage, and the environment steps per lane so far and in total, over all stages."""

    stage: int
    done: int
    total: int


@dataclass(frozen=True)
class Curve:
    """Score float64[L] on the current stage, after `step` steps of it; NaN: the learner has failed."""

    stage: int
    step: int
    score: Tensor


@dataclass(frozen=True)
class Scored:
    """Scores float64[L, S] on every stage after training on `after` stages (0: untrained); NaN: the learner failed."""

    after: int
    score: Tensor


@dataclass(frozen=True)
class Consolidated:
    """Report of a consolidation after `done` steps: name → float64[L]; see also `Consolidation`."""

    stage: int
    done: int
    values: Mapping[str, Tensor]
    histogram: Tensor | None = None
    followed: Mapping[str, Tensor] = field(default_factory=dict)


@dataclass(frozen=True)
class Waiting:
    """The environments of the run are stepping; another run may continue meanwhile."""


Event = Built | Progress | Curve | Scored | Consolidated | Contents | Incident | Waiting
