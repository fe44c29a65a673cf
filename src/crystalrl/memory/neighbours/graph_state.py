"""The state of a neighbour graph as tensors, so that a loaded memory continues exactly as the saved one would have.

Lists, scales and ε are stored as they are. Of an index, only the centres and the slots of each inverted list, in order,
are stored; its vectors follow from the payload. So a file holds only numbers that can be checked.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor
from torch.nn.functional import pad

from crystalrl.memory.neighbours.graph import NeighbourGraph
from crystalrl.memory.neighbours.index import IndexState, without_lists
from crystalrl.memory.neighbours.tuning import GraphTuning
from crystalrl.memory.storage.checkpoint import refuse_other
from crystalrl.memory.storage.checks import MANY, between, finite, refuse
from crystalrl.memory.storage.header import CheckpointError

PREFIX = "vicinity."
"""Prefix of the names in a file."""
_LANE_TENSORS = {"epsilon": "epsilon", "built_for": "built_for", "since": "added", "held": "active"}
"""Name in a file → attribute of a graph."""


def tensors(graph: NeighbourGraph, used: int) -> dict[str, Tensor]:
    """The state as copies on CPU; tensors `slot.…` hold the first `used` slots."""
    state = {
        name: (tensor[:, :used] if name.startswith("slot.") else tensor).detach().to("cpu", copy=True).contiguous()
        for name, tensor in _live(graph).items()
    }
    nothing = without_lists(graph.states.size, torch.zeros(0, dtype=torch.int64, device="cpu"))
    for lane in range(graph.lanes):
        index = nothing if graph.index is None else graph.index.state(lane)
        state |= {f"index.{lane}.{name}": tensor for name, tensor in index._asdict().items()}
    return {PREFIX + name: tensor for name, tensor in state.items()}


def check(graph: NeighbourGraph, state: Mapping[str, Tensor]) -> None:
    """Raise CheckpointError if `state` does not fit this graph."""
    live, given = _live(graph), _given(graph, state)
    indices = {f"index.{lane}.{name}" for lane in range(graph.lanes) for name in IndexState._fields}
    if odd := sorted(set(given) ^ (set(live) | indices)):
        raise CheckpointError(
            f"state: wanted the neighbour lists of these parameters, got others: {', '.join(odd[:6])}"
        )
    for name, own in live.items():
        refuse_other(PREFIX + name, own, given[name])
        if name in ("slot.ahead", "slot.alike"):
            _check_lists(PREFIX + name, given[name], graph.capacity)
        elif name.startswith("slot."):
            refuse(finite(PREFIX + name, given[name]), CheckpointError)
    for name, least in (("mean", -torch.inf), ("deviation", 1e-38), ("action_deviation", 1e-38), ("epsilon", 0.0)):
        refuse(between(PREFIX + name, given[name], least, torch.inf), CheckpointError)
    for name in ("built_for", "since"):
        refuse(between(PREFIX + name, given[name], 0, MANY), CheckpointError)
    for lane in range(graph.lanes):
        _check_index(f"{PREFIX}index.{lane}", _index_state(given, lane), graph.capacity, graph.states.size)


def fill(graph: NeighbourGraph, state: Mapping[str, Tensor]) -> None:
    """Continue from a state that `check` has accepted, once the payload is loaded."""
    given = _given(graph, state)
    for name, own in _live(graph).items():
        (own[:, : given[name].shape[1]] if name.startswith("slot.") else own).copy_(given[name])
    for lane in range(graph.lanes):
        restored = graph.index is None or graph.index.restore(
            lane, _index_state(given, lane), lambda slots: graph.states.vectors("obs", slots)
        )
        if not restored:
            graph.built_for[lane] = 0


def _live(graph: NeighbourGraph) -> dict[str, Tensor]:
    """The tensors of a graph by their names in a file."""
    states = graph.states
    named = {name: getattr(graph, attribute) for name, attribute in _LANE_TENSORS.items()}
    named |= {"mean": states.mean, "deviation": states.deviation, "action_deviation": states.action_deviation}
    lists = {"slot.ahead": graph.successor_lists, "slot.alike": graph.similar_lists}
    named |= {name: each.index for name, each in lists.items() if each is not None}
    return named | {f"slot.copy.{role}": copy for role, copy in states.copies.items()}


def _given(graph: NeighbourGraph, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The state without prefixes. Lists of earlier versions, which were shorter, are filled up with −1."""
    given, lists = {name.removeprefix(PREFIX): tensor for name, tensor in state.items()}, graph.successor_lists
    ahead = given.get("slot.ahead")
    if lists is not None and ahead is not None and ahead.shape[-1] == graph.params.k + GraphTuning.spare < lists.k:
        given["slot.ahead"] = pad(ahead, (0, lists.k - ahead.shape[-1]), value=-1)
    return given


def _index_state(given: Mapping[str, Tensor], lane: int) -> IndexState:
    return IndexState(*(given[f"index.{lane}.{name}"] for name in IndexState._fields))


def _check_lists(name: str, lists: Tensor, slots: int) -> None:
    """Lists int32[L, W, K] name other slots than their own, −1 only at their end."""
    own = torch.arange(lists.shape[1], device=lists.device)[:, None]
    if not _within(lists, -1, slots) or bool((lists == own).any()):
        raise CheckpointError(f"state {name}: wanted other slots below {slots}, got others")
    if bool(((lists[..., 1:] >= 0) & (lists[..., :-1] < 0)).any()):
        raise CheckpointError(f"state {name}: wanted −1 at the end of lists only, got gaps")


def _check_index(name: str, state: IndexState, slots: int, size: int) -> None:
    centres, sizes, ids = state
    kinds = (centres.dtype, sizes.dtype, ids.dtype) == (torch.float32, torch.int64, torch.int64)
    shapes = centres.dim() == 2 and sizes.dim() == ids.dim() == 1 and list(centres.shape) == [len(sizes), size]
    if not (kinds and shapes):
        raise CheckpointError(
            f"state {name}: wanted centres float32[n, {size}], sizes int64[n], ids int64[m], got others"
        )
    counted = _within(sizes, 0, len(ids) + 1) and (not len(sizes) or int(sizes.sum()) == len(ids))
    if not (counted and _within(ids, 0, slots) and len(ids.unique()) == len(ids) and bool(centres.isfinite().all())):
        raise CheckpointError(
            f"state {name}: wanted every slot once, below {slots}, in lists of the given sizes, got others"
        )


def _within(values: Tensor, low: int, high: int) -> bool:
    return bool(((values >= low) & (values < high)).all())
