"""The parameters of a crystal memory, in the paper's symbols, and its presets.

`CrystalParams()` is the recommended configuration, also named `anchored`. `CrystalParams.repaired()` is the paper's
idea with the fixes it needs, without anchors; `CrystalParams.paper()` implements the paper literally. `paper_robotics`,
`paper_games` and `paper_navigation` are the columns of the paper's table of settings.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Literal, Self

from crystalrl.lanes import PerLane
from crystalrl.lifecycle import Lifecycle
from crystalrl.params_checks import check_fields, floats
from crystalrl.params_words import describe

Rule = Literal["none", "exists", "newer_majority", "fresh_mean"]


@dataclass(frozen=True)
class CrystalParams(Lifecycle):
    """How experiences crystallize, are kept and replayed. Only `PerLane` fields may differ between lanes."""

    w1: PerLane = 0.5
    """Weight of the TD error in the utility (eq. utility); w1 + w2 + w3 is 1, or less if a term is switched off. Where
    the sum is above 1, the weights are divided by it."""
    w2: PerLane = 0.3
    """Weight of novelty in the utility."""
    w3: PerLane = 0.2
    """Weight of the downstream value in the utility."""
    scale: Literal["median", "q95", "raw"] = "q95"
    """How |δ| is scaled to [0, 1]: |δ|/(|δ| + median of the positive |δ|), or |δ|/95th percentile, clipped. `raw`:
    |δ| as it is (the paper); then the utility is clipped to [0, 1]."""
    Z: PerLane = 50.0
    """Visits after which novelty falls to 1/e (eq. nov)."""
    cell: float = 0.3
    """Width of a cell of the novelty grid, in standard deviations of each coordinate."""
    novelty: Literal["auto", "grid", "knn", "state_action"] = "auto"
    """How visits are counted: `grid` counts visits to grid cells, `knn` estimates them from the distance to the k
    nearest stored states (for many dimensions, where cells are rarely revisited), `auto` uses the grid while cells are
    revisited. `state_action` is the grid without contexts (the paper's n(s, a))."""
    k: int = 10
    """Number of neighbours for the downstream value (eq. dv), novelty, the interference backup and the automatic ε."""
    downstream: Literal["neighbours", "random"] = "neighbours"
    """Where the downstream value comes from; `random` is a row of the paper's ablation."""
    boost: bool = False
    """Whether the discounted return of an episode raises the utility of its experiences (Algorithm 3)."""

    interference: Rule = "fresh_mean"
    """Which experiences count as contradicted; see `crystalrl.memory.neighbours.contradiction`."""
    epsilon: PerLane | None = None
    """ε, the distance within which states can contradict each other. None: measured at each consolidation such that the
    median liquid experience has k liquid ones with its action and context within ε (for the rule `exists`: the median
    distance, of states plus actions, to the nearest experience)."""
    delta_r: PerLane | None = None
    """δ_r, how much rewards must differ to contradict. None: their standard deviation at each consolidation."""
    raw_distance: bool = False
    """True: distances, so also ε and the k nearest states, are in raw units (the paper). False: in deviations."""
    project: bool = True
    """Whether states of more than 64 dimensions are projected onto 32 random directions before they are compared."""
    backup: float = 0.97
    """W ← max(I, backup·mean W of the neighbours of s′): interference propagates back from contradicted successors. 0:
    off."""
    sweeps: int = 15
    """Backup sweeps per consolidation: how many steps back a contradiction propagates."""
    warm: bool = False
    """Whether the backup starts from the last W, so that one or two sweeps suffice; W then fades slowly once a
    contradiction is gone."""

    gate: PerLane = 2.0
    """The TD loss of an experience is weighted by (1 − c)^gate (eq. eta). Where only a policy is anchored,
    gate, settle and practice are off; see `for_anchors`."""
    w_min: PerLane = 0.0
    """Minimum of the weight (1 − c)^gate."""
    kappa: PerLane | Mapping[str, float] = 1.0
    """κ, strength of the anchors: one value for all, or one per anchor name. An anchor named `policy` pulls in
    units of value; see `Evaluation.stake`. A memory without anchors replaces parameters with kappa > 0 by
    `without_anchors()`."""
    anchor_power: PerLane = 2.0
    """p: the anchor loss of an experience is weighted by κ·c^p."""
    practice: int = 5
    """An experience is practised while one of this many stored states nearest to its successor state, in its context,
    is fresh: arrived since the last consolidation. What is practised is not held: its TD loss counts fully, its anchor
    follows the network without pull. Pinned experiences are always held. 0: off."""

    batch: tuple[float, float, float] = (0.40, 0.10, 0.50)
    """Shares of a batch for liquid, glass and crystal."""
    draws_per_experience: float | None = 1.0
    """A phase gets at most this many draws per stored experience in a batch, if other phases can take the rest. None:
    its full share, even if it holds one experience (the paper)."""
    split: Literal["largest_remainder", "floor"] = "largest_remainder"
    """How batch shares are rounded; `floor` is Algorithm 2: ⌊.70B⌋, ⌊.25B⌋, ⌈.05B⌉, the rest to liquid."""
    nu: PerLane = 0.4
    """ν, exponent of |δ| in the draw weights."""
    is_exponent: PerLane = 0.4
    """Initial exponent of the importance weights."""
    is_steps: int | None = None
    """Environment steps over which the importance exponent rises to 1. None: constant."""
    importance: Literal["phase", "memory"] = "phase"
    """What importance weights correct: unequal draws within a phase, or within the whole memory (Algorithm 2)."""

    def __post_init__(self) -> None:
        check_fields(self)
        self.refuse_inconsistent()

    @classmethod
    def anchored(cls, **changes: Any) -> Self:
        """The default: crystals anchor the network's outputs, form once these settle, and melt when contradicted."""
        return cls(**changes)

    @classmethod
    def unanchored(cls, **changes: Any) -> Self:
        """Replay only: no anchors, crystals count fully, draws within a phase are uniform."""
        return replace(cls().without_anchors(), **changes)

    @classmethod
    def repaired(cls, **changes: Any) -> Self:
        """The paper's idea with the fixes it needs: sound rates, utility and interference, but no anchors."""
        return replace(
            cls(
                alpha=0.05, melt=None, settle=None, tau_evict=100, scale="median", boost=True,
                interference="newer_majority", backup=0.0, w_min=0.5, kappa=0.0, practice=0, capacity=(10.0, 5.0, 1.0),
                batch=(0.70, 0.25, 0.05), nu=0.6, time_unit=200, every=5000,
            ),
            **changes,
        )  # fmt: skip

    @classmethod
    def paper(cls, **changes: Any) -> Self:
        """The paper, literally; `docs/paper-to-the-letter.md` lists what differs. Open choices are the simplest."""
        return replace(
            cls.repaired(
                band_C=None, tau_evict=20, scale="raw", boost=True, interference="exists", raw_distance=True,
                project=False, w_min=0.0, split="floor", overflow="frozen", nu=0.4, importance="memory", spare=0.05,
                integrator="euler", clock="calls", every_episode=True, novelty="state_action", borrow=False,
                draws_per_experience=None,
            ),
            **changes,
        )  # fmt: skip

    @classmethod
    def paper_robotics(cls, **changes: Any) -> Self:
        """`paper` for fast-changing tasks (first column of the paper's table of settings)."""
        table = {"alpha": 0.1, "beta": 0.02, "sigma": 0.01, "tau_L": 0.25, "tau_C": 0.65}
        return cls.paper(**{**table, "capacity": _with_crystal(0.08), **changes})

    @classmethod
    def paper_games(cls, **changes: Any) -> Self:
        """`paper` for moderate change (second column)."""
        return cls.paper(**{"capacity": _with_crystal(0.06), **changes})

    @classmethod
    def paper_navigation(cls, **changes: Any) -> Self:
        """`paper` for slow change (third column): Δt = 5, every 5,000 steps, not per episode."""
        table = {"alpha": 0.01, "beta": 0.001, "sigma": 0.002, "tau_L": 0.35, "tau_C": 0.8, "delta_t": 5.0}
        return cls.paper(**{**table, "every_episode": False, "capacity": _with_crystal(0.05), **changes})

    def for_anchors(self, names: Collection[str]) -> Self:
        """The same for a memory with these anchors.

        If only a policy is anchored, its critic is free: it learns from crystals like from all others, and where it
        knows better than the anchor, it overrules it. So nothing needs to settle first, and nothing is released.
        """
        if not names and self.pulls:
            return self.without_anchors()
        return replace(self, gate=0.0, settle=None, practice=0) if set(names) == {"policy"} else self

    def without_anchors(self) -> Self:
        """The same for a memory without anchors: since nothing holds the network to its crystals, it learns from them
        like from all others.
        """
        return replace(self, kappa=0.0, settle=None, gate=0.0, nu=0.0, practice=0)

    @property
    def pulls(self) -> bool:
        """Whether anchors pull the network: some kappa is above 0."""
        return any(floats(self.kappa))

    @property
    def uses_anchors(self) -> bool:
        """Whether anchors are needed: for the anchor loss (kappa), or to measure whether outputs have settled."""
        return self.pulls or self.settle is not None

    def describe(self, slots: int, utility: float = 0.5, interference: float = 0.0, **more: Any) -> str:
        """What becomes of an experience of this utility in a memory with this many slots, overwriting included;
        more: see `crystalrl.params_words.describe`."""
        return describe(self, slots, utility, interference, **more)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        known = {f.name for f in fields(cls)}
        values = {**BEFORE, **values}
        given: dict[str, Any] = {n: tuple(v) if isinstance(v, list) else v for n, v in values.items() if n in known}
        return cls(**given)


BEFORE: dict[str, Any] = {"borrow": False, "draws_per_experience": None, "practice": 0}
"""Their values in files that were written before these parameters existed."""


def _with_crystal(share: float) -> tuple[float, float, float]:
    """Capacity with the given crystal share, the rest split 2 : 1 between liquid and glass."""
    return (1 - share) * 2 / 3, (1 - share) / 3, share
