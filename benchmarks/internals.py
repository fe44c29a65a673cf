"""The one place where benchmarks reach behind the public names of the library's memories."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor

from crystalrl import CrystalMemory
from crystalrl.backends.protocols import Pairs
from crystalrl.memory.base import ReplayMemory
from crystalrl.memory.crystal.consolidate import plan as planned
from crystalrl.memory.crystal.evaluate import evaluate_all
from crystalrl.memory.crystal.snapshot import Plan
from crystalrl.memory.neighbours.contradiction import contradicted
from crystalrl.memory.neighbours.epsilon import Scales, liquid_spacing
from crystalrl.memory.neighbours.exact import median_spacing, moments
from crystalrl.memory.neighbours.experiences import Experiences
from crystalrl.memory.neighbours.graph import NeighbourGraph
from crystalrl.memory.neighbours.index import Ivf
from crystalrl.memory.sampling.sum_tree import SumTree
from crystalrl.memory.storage.batches import gather_batch
from crystalrl.types import Batch, Evaluate

__all__ = ["Experiences", "Ivf", "SumTree", "contradicted", "liquid_spacing", "median_spacing", "moments"]


@contextmanager
def without_numba() -> Iterator[None]:
    """Memories built inside use the NumPy backend."""
    os.environ["CRYSTALRL_BACKEND"] = "numpy"
    try:
        yield
    finally:
        del os.environ["CRYSTALRL_BACKEND"]


def exact_up_to(slots: int) -> type[CrystalMemory]:
    """A crystal memory that compares all pairs up to this many slots, and keeps neighbour lists above."""
    return type("CrystalMemory", (CrystalMemory,), {"exact_up_to": {"cpu": slots, "cuda": slots}})


class _ScaledEpsilon(Scales):
    factor = 1.0

    def epsilon(self, experiences: Experiences, pairs: Pairs | None) -> Tensor:
        return self.factor * super().epsilon(experiences, pairs)


def scale_epsilon(memory: CrystalMemory, factor: float) -> None:
    """Multiply the automatic ε of a memory that compares all pairs by a factor."""
    memory.neighbours.scales = scales = _ScaledEpsilon(memory.params, memory.lanes, memory.device)
    scales.factor = factor


def store(memory: ReplayMemory, columns: Mapping[str, Any]) -> None:
    """Store many experiences of one lane at once, as `add` would one step at a time. columns: name → values [M, …]."""
    count = len(columns["reward"])
    rows = torch.zeros(1, count, memory.packer.layout.words, dtype=torch.int64)
    views = memory.packer.layout.torch_views(rows)
    views["discount"].fill_(0.99)
    for name, values in columns.items():
        views[name].copy_(torch.as_tensor(values)[None])
    memory._store(rows, torch.ones(1, count, dtype=torch.bool), count)


def evaluated(memory: CrystalMemory) -> Tensor:
    """bool[N] of the first lane: experiences that a consolidation has seen."""
    return (memory.ledger.flags[0] & 1) > 0


def pretend_evaluated(memory: CrystalMemory) -> None:
    """Random |δ| and utilities for all, as if a consolidation had computed them."""
    memory.ledger.flags.fill_(1)
    memory.ledger.error.uniform_()
    memory.ledger.utility.uniform_()


def forget_utility(memory: CrystalMemory) -> None:
    """Give every slot an arbitrary utility."""
    memory.ledger.utility.uniform_()


def judged(memory: CrystalMemory) -> Tensor:
    """float32[4, M] of the first lane's experiences: c, utility, phase, |δ|."""
    ledger, stored = memory.ledger, memory.ledger.phase[0] > 0
    return torch.stack([each[0, stored] for each in (ledger.c, ledger.utility, ledger.phase, ledger.error)])


def set_phases(memory: CrystalMemory, phase: Tensor, where: Tensor) -> None:
    """Give slots bool[N] of the first lane the phases uint8[N], and c = .1, .5 or .9."""
    ledger = memory.ledger
    ledger.c[0] = torch.where(where, (phase - 1) * 0.4 + 0.1, ledger.c[0])
    ledger.relabel(torch.where(where, phase, ledger.phase[0])[None], torch.ones(1, 1, dtype=torch.bool))


def phase_by_birth(memory: CrystalMemory) -> Tensor:
    """Phase uint8 of each experience that the first lane ever received, in order of arrival; 0: evicted."""
    ledger = memory.ledger
    phases, stored = torch.zeros(int(ledger.number[0]), dtype=torch.uint8), ledger.phase[0] > 0
    phases[ledger.birth[0, stored]] = ledger.phase[0, stored]
    return phases


def plan(memory: CrystalMemory, evaluate: Evaluate) -> Plan:
    """A consolidation up to the point where it changes the ledger; `memory.apply` does the rest."""
    snapshot = memory.snapshot()
    critic = evaluate_all(snapshot, evaluate)
    return planned(snapshot, critic, memory.neighbours.refresh(snapshot))


class NeighbourLists:
    """Kept lists of the first lane, for reading."""

    def __init__(self, memory: CrystalMemory) -> None:
        assert memory.neighbours.graph is not None
        self._graph: NeighbourGraph = memory.neighbours.graph
        self.errors = memory.ledger.error[0]
        """|δ| float32[N]."""
        self.stored = (memory.ledger.phase[0] > 0).nonzero()[:, 0]
        """Occupied slots int64[M]."""

    def vectors(self, role: str, slots: Tensor) -> Tensor:
        """Standardised states float32[P, D]; role: obs or next_obs."""
        return self._graph.states.of_lane(role, 0, slots)

    def of_successors(self, slots: Tensor) -> Tensor:
        """Slots int64[P, k] nearest to the successor states; −1: fewer are listed."""
        assert self._graph.successor_lists is not None
        return self._graph.successor_lists.index[0, slots].to(torch.int64)


def sample_parts(memory: ReplayMemory, size: int) -> dict[str, Callable[[], object]]:
    """The parts of `sample` and `update` of one lane, each as a step of its own that draws first where it must."""
    tree, arena, time = memory.sampler, memory.arena, memory.time
    error = torch.rand(size)

    def gathered(slots: Tensor, weight: Tensor, ticket: Tensor | None) -> Batch:
        return gather_batch(arena, slots, weight, to=memory.deliver, squeeze=True, ticket=ticket)

    parts: dict[str, Callable[[], object]] = {"draw": lambda: tree.draw(size, time)}
    if memory.anchors:
        parts["draw, anchors"] = lambda: memory.anchors.at(tree.draw(size, time).slots)  # type: ignore[union-attr]
    known = tree.draw(size, time)
    parts |= {
        "draw, gather": lambda: gathered(*tree.draw(size, time)),
        "gather of rows in the cache": lambda: gathered(*known),
        "sample": lambda: memory.sample(size),
        "sample, update": lambda: memory.update(memory.sample(size), error),
    }
    return parts


def build_lists(memory: CrystalMemory) -> None:
    """Make the memory, which must be full, keep neighbour lists and their index, if it has one."""
    memory.neighbours.graph = graph = memory.neighbours.empty_graph(memory.arena)
    every = torch.ones(1, memory.capacity, dtype=torch.bool)
    if graph.index is not None:
        graph.index.build(every, every[:, 0], partial(graph.states.vectors, "obs"))


def bytes_by_part(memory: Any) -> dict[str, float]:
    """Per slot: payload, ledger (with the visit counts, without anchors), neighbour lists, copies of vectors."""
    graph = memory.neighbours.graph if isinstance(memory, CrystalMemory) else None
    listed, vectors = (graph.list_bytes, graph.nbytes - graph.list_bytes) if graph else (0, 0)
    anchors = sum(anchor.nbytes for anchor in (memory.anchors or {}).values())
    parts = {"payload": memory.arena.nbytes, "lists": listed, "vectors": vectors}
    parts["ledger"] = memory.nbytes - sum(parts.values()) - anchors
    return {name: count / memory.capacity for name, count in parts.items()}
