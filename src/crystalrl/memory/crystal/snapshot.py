"""The input and the result of planning a consolidation: `Snapshot` is what it reads, `Plan` what it will write."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from time import perf_counter

import torch
from torch import Tensor

from crystalrl.dynamics import EMPTY
from crystalrl.lanes import per_lane
from crystalrl.memory.crystal.anchors import Anchors
from crystalrl.memory.crystal.ledger import EVALUATED, CrystalLedger
from crystalrl.memory.crystal.novelty import Grid, Visits
from crystalrl.memory.neighbours.features import Features
from crystalrl.memory.neighbours.neighbourhood import Neighbours
from crystalrl.memory.neighbours.view import View
from crystalrl.memory.storage.external import AnyArena
from crystalrl.params import CrystalParams
from crystalrl.random import Streams


@dataclass(frozen=True)
class Columns:
    """The columns of the ledger that a consolidation rewrites, [L, W] each; see `CrystalLedger` for their meaning."""

    c: Tensor
    utility: Tensor
    error: Tensor
    interference: Tensor
    held: Tensor
    key: Tensor
    streak: Tensor
    flags: Tensor
    updated: Tensor

    @classmethod
    def names(cls) -> tuple[str, ...]:
        return tuple(each.name for each in fields(cls))

    @classmethod
    def copied(cls, ledger: CrystalLedger, slots: int) -> Columns:
        return cls(*(getattr(ledger, name)[:, :slots].clone() for name in cls.names()))


@dataclass(frozen=True)
class Shared:
    """The parts of a memory that a consolidation reads without copying them."""

    params: CrystalParams
    lane_params: Mapping[str, Tensor]
    """Parameters that may differ between lanes, float64[L, 1] by name."""
    capacity: int
    block: int
    """Slots per block; see `View.block`."""
    squeeze: bool
    """Whether batches have no lane axis."""
    deliver: torch.device
    """Device of the batches given to the critic."""
    streams: Streams
    features: Features
    grid: Grid
    anchors: Anchors


@dataclass(frozen=True)
class Clock:
    """Copies of the memory's counters at the time of the snapshot."""

    time: Tensor
    """int64[L]: environment steps."""
    consolidations: Tensor
    """int64[L]: consolidations so far."""
    episode_ended: Tensor
    """bool[L, 1]: lanes in which an episode had ended."""
    steps: Tensor
    """int64[1]: environment steps that this consolidation accounts for."""
    loads: int
    """How often other contents have been loaded into the memory."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Snapshot(View):
    """A memory as a consolidation sees it: W ≤ N slots per lane. Slots beyond W are empty in every lane.

    Columns are copies. The payload is read from `arena` when it is needed.
    """

    shared: Shared
    columns: Columns
    boost: Tensor | None
    """Utility added for the return of an episode, [L, W]."""
    generation: Tensor
    """int32[L, W]: generation of each slot, to recognise slots rewritten since."""
    chosen: Tensor
    """bool[L, W]: experiences whose c this consolidation updates."""
    caps: tuple[int, int, int]
    """Slots for liquid, glass and crystal."""
    enter: tuple[Tensor, Tensor]
    """c above which an experience is promoted to glass and to crystal, [L, 1] each."""
    leave: tuple[Tensor, Tensor]
    """c below which an experience is demoted to liquid and to glass, [L, 1] each."""
    clock: Clock
    taken_at: float
    """Wall-clock time of the snapshot, in seconds."""


@dataclass(frozen=True)
class Plan:
    """What a consolidation will write. `CrystalMemory.apply` writes it, except to slots rewritten in the meantime."""

    snapshot: Snapshot
    columns: Columns
    """The new columns."""
    phase: Tensor
    """uint8[L, W]: the new phases."""
    anchors: Mapping[str, Tensor]
    """The new anchor targets, [L, W, …] by name."""
    unit: Tensor
    """The new unit of the policy's anchor, float32[L]."""
    visits: Visits
    values: Mapping[str, Tensor]
    """Numbers for the report, [L] each."""
    seconds: Mapping[str, float]
    """Wall-clock seconds by stage."""
    notes: tuple[str, ...] = ()
    """Remarks for the report."""
    seen: Mapping[str, Tensor] = field(default_factory=dict)
    """Properties of each experience that the ledger does not store, [L, W] by name: the parts of its utility
    (surprise, novelty, downstream) and the drift of its outputs from their anchors."""
    neighbours: Neighbours | None = None
    """The new neighbour lists, if `CrystalMemory.plan` worked on a copy."""


def lane_params(params: CrystalParams, lanes: int, device: torch.device) -> dict[str, Tensor]:
    """The parameters that a consolidation reads lane by lane, float64[L, 1] each, unless they are None."""
    names = ("alpha", "beta", "sigma", "leak", "melt", "settle", "w1", "w2", "w3", "Z")
    given = {name: getattr(params, name) for name in names}
    return {name: per_lane(name, value, lanes, device) for name, value in given.items() if value is not None}


def take_snapshot(ledger: CrystalLedger, arena: AnyArena, shared: Shared, due: Tensor, clock: Clock) -> Snapshot:
    """A snapshot for a consolidation of the lanes due bool[L, 1]."""
    width = widths(ledger.reach, ledger.slots, shared.block)
    slots = int(width.max())
    phase, columns = ledger.phase[:, :slots], Columns.copied(ledger, slots)
    chosen = chosen_slots(shared.params, (phase != EMPTY) & due, columns.flags, clock.consolidations)
    return Snapshot(
        arena=arena,
        phase=phase,
        birth=ledger.birth[:, :slots].clone(),
        unevaluated=chosen & ((columns.flags & EVALUATED) == 0),
        due=due,
        due_on_host=due[:, 0].cpu(),
        width=width,
        consolidations=clock.consolidations,
        block=shared.block,
        shared=shared,
        columns=columns,
        boost=ledger.boost[:, :slots].clone() if shared.params.boost else None,
        generation=ledger.generation[:, :slots].clone(),
        chosen=chosen,
        caps=ledger.caps,
        enter=ledger.enter,
        leave=ledger.leave,
        clock=clock,
        taken_at=perf_counter(),
    )


def widths(reach: Tensor, slots: int, block: int) -> Tensor:
    """int64[L] on CPU: slots of each lane that a consolidation reads, independent of the other lanes.

    A memory of at most one block: all slots. Otherwise: whole blocks up to the last occupied slot, reach int64[L].
    """
    blocks = -(-reach.cpu() // block) if slots > block else torch.full((len(reach),), slots, device="cpu")
    return (blocks.clamp_min(1) * block).clamp_max(slots)


def chosen_slots(params: CrystalParams, occupied: Tensor, flags: Tensor, consolidations: Tensor) -> Tensor:
    """bool[L, W]: slots to update: those occupied, in lanes that are due, and in this slice or never evaluated."""
    if params.slices == 1:
        return occupied
    number = torch.arange(occupied.shape[1], device=occupied.device)
    mine = number % params.slices == consolidations[:, None] % params.slices
    return occupied & (mine | ((flags & EVALUATED) == 0))
