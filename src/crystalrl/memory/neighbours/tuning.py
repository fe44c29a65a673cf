"""Numbers that trade the quality of neighbour lists for time and bytes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True, kw_only=True)
class GraphTuning:
    """Sizes and budgets of a `NeighbourGraph`; `docs/decisions/neighbours.md` has the reasons for the defaults."""

    index: Literal["auto", "ivf", "brute", "none"] = "auto"
    """The index that lists are filled from: FAISS or all distances; auto: FAISS on CPU. none: a query compares with
    all stored states, on CPU with numba; elsewhere as auto."""
    spare: int = 2
    """Neighbours of a successor state listed beyond k, so that a list that loses one need not be renewed at once."""
    similar: int = 10
    """Experiences within ε that a list names."""
    candidates: int = 64
    """States from the index among which the experiences within ε are searched."""
    min_budget: int = 1024
    """Lower bound of the budget, which is the number of unevaluated experiences. Half as many lists are renewed in
    turn."""
    max_budget: int = 1 << 14
    """Upper bound of the budget; see `min_budget`."""
    renewed_every: int = 2
    """New experiences for each list that is renewed in turn."""
    short_lists: Mapping[str, int] = field(default_factory=lambda: {"cpu": 4, "cuda": 1})
    """Lists with fewer than k neighbours that are renewed in addition, the shortest first, in multiples of the
    budget."""
    hints: int = 10
    """Neighbours of a new experience through whose reverse neighbours it finds the lists that should name it."""
    insert_at_once: int = 8
    """Maximum number of new experiences that one list compares per consolidation."""
    query_limit: int = 1 << 18
    """If more experiences than this are new at once (mostly after a load), their lists start from adjacent steps, and
    query the index when they are renewed in turn."""
    epsilon_every: int = 1 << 16
    """ε is measured in every n-th consolidation of n times this many slots."""
    visits: int = 256
    """States that a graph search visits (numba)."""
    wide: int = 1024
    """States that it visits where a trajectory does not lead to the neighbours (numba)."""
    query_every: int = 4
    """Every n-th search for the neighbours of a new experience also starts from what the index finds; all start from
    the result of the step before (numba)."""
    reverse: int = 6
    """Reverse neighbours of a state whose lists a graph search visits (numba)."""
    around: int = 48
    """States near an experience's own among which those within ε are searched, and through whose reverse neighbours it
    is inserted into lists (numba)."""
    insert: bool = True
    """Whether new experiences are inserted into the lists of others. Tests switch it off to measure what it gains."""


WITHOUT_INDEX = 1 << 17
"""Slots of a memory up to which comparing one state with all takes about as long as querying an index."""


def tuning_for(slots: int, device: str) -> GraphTuning:
    """Without an index, queries are exact but cost more, and lists get its room: so they are longer, and fewer queries
    are needed. Larger memories on CPU have room for one more entry."""
    if device != "cpu":
        return GraphTuning()
    if slots > WITHOUT_INDEX:
        return GraphTuning(spare=3)
    return GraphTuning(index="none", spare=14, query_every=4, renewed_every=4)
