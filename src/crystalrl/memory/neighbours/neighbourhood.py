"""What a consolidation needs to know about neighbours, from all pairs or from kept lists, lane by lane."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass

import torch
from torch import Tensor

from crystalrl.backends import backend_for
from crystalrl.memory.neighbours import graph_state
from crystalrl.memory.neighbours.all_pairs import AllPairs, Found, needs_near
from crystalrl.memory.neighbours.epsilon import Scales
from crystalrl.memory.neighbours.exact import full_precision, moments
from crystalrl.memory.neighbours.features import Features
from crystalrl.memory.neighbours.graph import NeighbourGraph
from crystalrl.memory.neighbours.index import have_faiss, without_index
from crystalrl.memory.neighbours.tuning import GraphTuning, tuning_for
from crystalrl.memory.neighbours.view import View
from crystalrl.memory.storage.external import AnyArena
from crystalrl.params import CrystalParams


@dataclass(frozen=True, eq=False)
class Neighbourhood(Found):
    """The neighbours of all experiences in a view. Valid until the next `Neighbours.refresh`."""

    view: View
    features: Features
    graph: NeighbourGraph | None
    """None: no lane keeps lists."""
    raw: bool = False
    """Whether distances are in raw units, not in standard deviations."""

    def successor_distance(self, other: Tensor) -> Tensor:
        """float32[L, W]: distance of each successor state to the state of slot other int64[L, W]."""
        if self.graph is None:
            return self._measured(other)
        listed = self.graph.states.all_successor_distances(other, self.graph.backend.graph)
        if bool(self.graph.active.all()):
            return listed
        return torch.where(self.graph.active.to(other.device)[:, None], listed, self._measured(other))

    def _measured(self, other: Tensor) -> Tensor:
        """`successor_distance` of lanes without lists, in deviations of everything that they store now."""
        state, successor = self.features.seen(self.view)
        gap = state.gather(1, other[..., None].expand_as(state)) - successor
        if not self.raw:
            gap = gap / moments(state, self.view.occupied, self.view.block)[1]
        return gap.square_().sum(-1).sqrt_()


class Neighbours:
    """Finds the neighbours of a memory's experiences. The graph is a cache that `refresh` brings up to date."""

    def __init__(
        self, params: CrystalParams, features: Features, exact_up_to: int, tuning: GraphTuning | None = None
    ) -> None:
        spec = features.spec
        self.params, self.features = params, features
        self.tuning = tuning or tuning_for(spec.capacity, torch.device(spec.device).type)
        self.exact_up_to = exact_up_to
        """Slots up to which a lane compares all pairs; above, it keeps neighbour lists."""
        self.device = torch.device(spec.device)
        self.backend = backend_for(self.device)
        self.scales = Scales(params, spec.lanes or 1, self.device)
        self.graph: NeighbourGraph | None = None
        """Neighbour lists; None if no lane keeps any."""

    def refresh(self, view: View) -> Neighbourhood:
        """The neighbours of the experiences in this view; changes the graph."""
        with full_precision():
            found = self._found(view, self._with_lists(view))
        raw = self.params.raw_distance
        return Neighbourhood(**vars(found), view=view, features=self.features, graph=self.graph, raw=raw)

    def _found(self, view: View, listed: Tensor) -> Found:
        """Results from lists in the lanes bool[L] (on CPU), from all pairs in others."""
        pairs = AllPairs(self.params, self.features, self.scales, self.backend.pairs)
        if not bool(listed.any()):
            self.graph = None
            return pairs.search(view, torch.ones_like(listed))
        self.graph = self.graph or self.empty_graph(view.arena)
        found, rest = self.graph.refresh(view, listed), view.due_on_host & ~listed
        return found.joined(pairs.search(view, rest), rest) if bool(rest.any()) else found

    def _with_lists(self, view: View) -> Tensor:
        """bool[L], on CPU: the lanes that keep lists."""
        if not (needs_near(self.params) or self.params.interference != "none"):
            return torch.zeros_like(view.due_on_host)
        large = view.width > self.exact_up_to
        if self.graph is not None:
            large = torch.where(view.due_on_host, large, self.graph.active)
        indexed = self.device.type == "cpu" and not without_index(self.params, self.backend, self.tuning)
        if bool(large.any()) and indexed and not have_faiss():
            warnings.warn(
                f"a consolidation compares all pairs of {view.slots:,} slots; to keep neighbour lists instead, "
                "install faiss-cpu (pip install 'crystalrl[faiss]')",
                stacklevel=4,  # the caller of consolidate
            )
            return torch.zeros_like(large)
        return large

    def empty_graph(self, arena: AnyArena) -> NeighbourGraph:
        """A graph without lists that reads the payload from this arena."""
        return NeighbourGraph(self.params, self.features, arena, self.scales, self.backend, self.tuning)

    def detached(self) -> Neighbours:
        """A copy that takes the graph over, for another thread to refresh; this one has none until `attach`."""
        twin, self.graph = copy(self), None
        return twin

    def attach(self, twin: Neighbours) -> None:
        """Take the graph back from a detached copy."""
        self.graph = twin.graph

    def copied(self, arena: AnyArena) -> Neighbours:
        """An independent copy, with a copy of the graph that reads the payload from this arena."""
        twin = copy(self)
        if self.graph is not None:
            state = self.state(self.features.spec.capacity)
            twin.fill(twin.checked(state, arena), state)
        return twin

    def clear(self) -> None:
        self.graph = None

    @property
    def nbytes(self) -> int:
        return 0 if self.graph is None else self.graph.nbytes

    def state(self, used: int) -> dict[str, Tensor]:
        """The state of the graph as tensors on CPU, of the first `used` slots; empty without a graph."""
        return {} if self.graph is None else graph_state.tensors(self.graph, used)

    @staticmethod
    def owns(name: str) -> bool:
        """Whether a tensor of this name in a memory's state belongs to the graph."""
        return name.startswith(graph_state.PREFIX)

    def checked(self, state: Mapping[str, Tensor], arena: AnyArena) -> NeighbourGraph | None:
        """An empty graph for `fill` that this state fits, None for an empty state; ValueError if it does not fit."""
        if not state:
            return None
        graph = self.empty_graph(arena)
        graph_state.check(graph, state)
        return graph

    def fill(self, graph: NeighbourGraph | None, state: Mapping[str, Tensor]) -> None:
        """Continue with what `checked` returned, once the payload is loaded."""
        if graph is not None:
            graph_state.fill(graph, state)
        self.graph = graph
