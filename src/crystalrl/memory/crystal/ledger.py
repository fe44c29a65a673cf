"""The ledger of a crystal memory: the state of every experience, and which slots are overwritten."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from crystalrl.backends import alloc, backend_for, recording
from crystalrl.backends.protocols import Entry, SlotColumns, Weighting
from crystalrl.dynamics import EMPTY
from crystalrl.lanes import per_lane
from crystalrl.memory.crystal.checks import counts, ledger_problems
from crystalrl.memory.crystal.write_order import write_order
from crystalrl.memory.sampling.priority import Annealed, LossGate, PriorityRule
from crystalrl.memory.sampling.sampler import WeightedSampler
from crystalrl.memory.sampling.strata import BatchStrata
from crystalrl.memory.sampling.sum_tree import SumTree
from crystalrl.memory.storage.checks import Named, Problems, refuse
from crystalrl.memory.storage.spec import StorageSpec
from crystalrl.params import CrystalParams
from crystalrl.random import Streams

EVALUATED, PINNED = 1, 2
"""Bits of `CrystalLedger.flags`."""
WEIGHTING = (Weighting.BASE, Weighting.BASE_ROOT_C, Weighting.C)
"""How the draw weights of liquid, glass and crystal are computed."""
TINY = 1e-6
"""Added to |TD error| in draw weights, so that an experience without TD error can still be drawn."""
STORED_LANES = {
    "number": "number", "highest": "max_priority", "filled": "filled", "queue": "queue", "head": "head", "tail": "tail",
}  # fmt: skip
"""Stored name → attribute, for the tensors that are not slot columns."""
STORED_SLOTS: dict[str, str] = {"suspicion": "interference"}
"""Stored name → attribute, for the slot columns whose names differ."""


class CrystalLedger:
    """State of L lanes × N slots.

    Invariants: the tree's label of a slot is its phase − 1 (empty: no label); `filled` counts the labels; c and utility
    lie in [0, 1]; weights are 0 for empty slots and positive for occupied ones; `queue[head:tail]` lists slots that may
    be written, in order: free ones, then liquid by utility, then liquid not yet evaluated by age.
    """

    c: Tensor
    """float32[L, N]: crystallization."""
    utility: Tensor
    """float32[L, N]: utility U."""
    error: Tensor
    """float32[L, N]: last known |TD error|."""
    interference: Tensor
    """float32[L, N]: W in [0, 1], how strongly an experience or its future is contradicted."""
    held: Tensor
    """float32[L, N]: how firmly the network is held to the experience: c, or 0 while it is practised. It decides how
    much the TD loss counts and how strongly anchors pull. Without `CrystalParams.practice` it is c itself."""
    key: Tensor
    """float32[L, N]: random key of a crystal; if there are too many crystals, those with the smallest keys stay."""
    streak: Tensor
    """uint8[L, N]: consecutive consolidations in which the experience was contradicted."""
    flags: Tensor
    """uint8[L, N]: sum of EVALUATED and PINNED."""
    birth: Tensor
    """int64[L, N]: arrival number of the experience in its lane."""
    updated: Tensor
    """int32[L, N]: environment step (with clock="calls", consolidation) of the last update of c. It wraps around; see
    `since`."""
    boost: Tensor
    """float32[L, N]: utility added for the return of its episode; exists only with `CrystalParams.boost`."""
    env: Tensor
    """[L, N]: environment that the experience came from; exists only with `CrystalParams.boost` and several."""

    def __init__(self, spec: StorageSpec, streams: Streams, params: CrystalParams, clock: Tensor) -> None:
        lanes, slots, device = len(streams.seeds), spec.capacity, streams.device
        self.lanes, self.slots, self.streams, self.params = lanes, slots, streams, params
        self._writes, self._new_entry = backend_for(device).writes, backend_for(device).entry
        self.caps = params.caps(slots)
        self.tree = SumTree(lanes, slots, len(WEIGHTING), device)
        self.generation = self.tree.generation[:, :slots]
        """int32[L, N]: increases when a slot is written or its experience evicted."""
        self.number = torch.zeros(lanes, dtype=torch.int64, device=device)
        self.max_priority = torch.ones(lanes, dtype=torch.float32, device=device)
        self.filled = torch.zeros(lanes, len(WEIGHTING), dtype=torch.float64, device=device)
        self.queue = alloc.zeros((lanes, slots), torch.int32, device)
        self.head = torch.zeros(lanes, dtype=torch.int64, device=device)
        self.tail = torch.zeros(lanes, dtype=torch.int64, device=device)
        self._set_thresholds(device)
        self._columns = self._allocate_columns(spec, clock)
        self._set_rules(device)
        self.strata = BatchStrata(params.batch, params.split, params.draws_per_experience, params.importance)
        self.clear()

    def _lane(self, name: str, device: torch.device) -> Tensor:
        """A parameter as float64[L, 1]."""
        return per_lane(name, getattr(self.params, name), self.lanes, device)

    def _set_thresholds(self, device: torch.device) -> None:
        liquid, crystal = self._lane("tau_L", device), self._lane("tau_C", device)
        self.enter = (liquid.to(torch.float32), crystal.to(torch.float32))
        """(τ_L, τ_C): an experience is promoted above these; float32[L, 1] like c, so that c = τ is not above τ."""
        below = torch.full_like(crystal, -1.0) if self.params.band_C is None else crystal - self.params.band_C
        self.leave = ((liquid - self.params.band_L).to(torch.float32), below.to(torch.float32))
        """An experience is demoted below these; float32[L, 1] each."""

    def _allocate_columns(self, spec: StorageSpec, clock: Tensor) -> SlotColumns:
        """Allocate the columns, set as attributes [L, N], with one spare slot for writes that are skipped."""
        lanes, slots, device, boost = self.lanes, self.slots, clock.device, self.params.boost
        names = (
            "c",
            "utility",
            "error",
            "suspicion",
            "key",
            *(("held",) * bool(self.params.practice)),
            *(("boost",) * boost),
        )

        def zeros(*shape: int, kind: torch.dtype = torch.float32) -> Tensor:
            return alloc.zeros((*shape, lanes, slots + 1), kind, device)

        floats, small = zeros(len(names)), zeros(2, kind=torch.uint8)
        self._wide = dict(zip((*names, "streak", "flags"), (*floats, *small), strict=True))
        self._wide |= {"birth": zeros(kind=torch.int64), "updated": zeros(kind=torch.int32)}
        if boost and spec.envs > 1:
            self._wide["env"] = zeros(kind=torch.uint8 if spec.envs <= 256 else torch.int32)
        for name, wide in self._wide.items():
            setattr(self, str(STORED_SLOTS.get(name, name)), wide[:, :slots])
        self.held = self._wide.get("held", self._wide["c"])[:, :slots]
        env = self._wide.get("env", torch.zeros(0, 0, dtype=torch.int32, device=device))
        enter = torch.stack(self.enter) + (0.0 if self.params.phases else torch.inf)
        columns = (floats, small, self._wide["birth"], self._wide["updated"], env)
        return SlotColumns(*columns, clock, self.number, self.filled, enter, spec.n_step)

    def _set_rules(self, device: torch.device) -> None:
        self.is_exponent = Annealed(self._lane("is_exponent", device), self.params.is_steps)
        self.gate = LossGate(self.held, self._lane("gate", device), self._lane("w_min", device))
        state = (self.c, self._wide["error"])
        self.rule = PriorityRule(TINY, self._lane("nu", device), self.max_priority, WEIGHTING, state)

    @property
    def phase(self) -> Tensor:
        """uint8[L, N]: 0 empty, 1 liquid, 2 glass, 3 crystal."""
        return self.tree.label[:, : self.slots] + 1

    @property
    def count(self) -> Tensor:
        return self.filled.sum(-1).to(torch.int64)

    @property
    def reach(self) -> Tensor:
        """int64[L]: all occupied slots of a lane are below this one."""
        number = torch.arange(1, self.slots + 1, device=self.tree.label.device)
        return (number * (self.phase != EMPTY)).amax(-1)

    @property
    def used(self) -> int:
        return int(self.reach.max())

    @property
    def nbytes(self) -> int:
        return self.tree.nbytes + sum(tensor.nbytes for tensor in self._own().values())

    def rebuild_queue(self) -> None:
        """List the slots that may be written. Rebuilding early does not change their order."""
        pinned, unevaluated = (self.flags & PINNED) > 0, (self.flags & EVALUATED) == 0
        order, count = write_order(self.phase, pinned, unevaluated, self.utility, self.birth)
        self.queue.copy_(order)
        self.head.zero_()
        self.tail.copy_(count)
        self._room = int(self.tail.min())

    def reserve(self, width: int) -> None:
        """Reserve `width` slots of the queue, which is rebuilt if it has fewer. Raises if fewer may be written."""
        if self._room < width:
            self.rebuild_queue()
        if self._room < width:
            raise RuntimeError(f"add: wanted {width} slots, but only {self._room} are not glass, crystal or pinned")
        self._room -= width
        if self.strata.scarce:
            self.refresh_strata()

    def allocate(self, valid: Tensor) -> Tensor:
        if not recording(valid.device):
            self.reserve(valid.shape[1])
        return self._writes.allocate(valid, self.head, self.slots, self.queue)

    def commit(self, slots: Tensor, c: Tensor | None = None) -> None:
        """Register new experiences in slots int64[L, M], with crystallization c float32[L, 1 or M] (None: 0)."""
        self.tree.commit(slots, self.rule, self._columns, c)
        if (c is not None or self.strata.scarce) and not recording(slots.device):
            self.refresh_strata()

    def admit(self, slots: NDArray[np.int64], time: NDArray[np.int64]) -> None:
        self.reserve(slots.shape[1])
        self._entry(slots, time)
        if self.strata.scarce:
            self.refresh_strata()

    @cached_property
    def _entry(self) -> Entry:
        return self._new_entry(self.head, self.slots, self.queue, self.tree.nodes, self.rule, self._columns)

    def sampler(self) -> WeightedSampler:
        return WeightedSampler(self.streams, self, self.tree, self.rule, self.strata, self.is_exponent, self.gate)

    def refresh_strata(self) -> None:
        """Recompute how many samples of a batch come from each phase, after the sizes of phases have changed."""
        self.strata.refresh(self.filled)

    def rewrite(self, columns: Mapping[str, Tensor], phase: Tensor, due: Tensor, generation: Tensor) -> Tensor:
        """Write the columns [L, W] and phases uint8[L, W] that a consolidation planned for the lanes due bool[L, 1].

        Slots rewritten since, whose generation differs from `generation` int32[L, W], are unchanged. Experiences pinned
        since are not evicted. Returns the slots that were written, bool[L, W].
        """
        seen = slice(None), slice(phase.shape[1])
        kept = due & (self.generation[seen] == generation)
        pinned = self.flags[seen] & PINNED
        columns = {**columns, "flags": (columns["flags"] & ~PINNED) | pinned}
        for name, planned in columns.items():
            column = getattr(self, name)[seen]
            column.copy_(torch.where(kept, planned, column))
        phases, touched = self.phase, torch.zeros(self.lanes, self.slots, dtype=torch.bool, device=phase.device)
        rescued = (phase == EMPTY) & (pinned > 0)
        phases[seen] = torch.where(kept & ~rescued, phase, phases[seen])
        touched[seen] = kept
        self.relabel(phases, touched)
        return kept

    def relabel(self, phase: Tensor, touched: Tensor) -> None:
        """Set the phases uint8[L, N] after a consolidation of the touched slots bool[L, N] (or lanes [L, 1]), and with
        them labels, weights, sums, counts, queue and quotas."""
        base, weight = self.rule.base(self.error), self.tree.weight[:, : self.slots]
        top = torch.where(touched & (phase != EMPTY), base, 0.0).amax(-1)
        torch.maximum(self.max_priority, top, out=self.max_priority)
        weight.copy_(torch.where(touched, self.rule.weight(phase - 1, base), weight))
        self.generation += (phase == EMPTY) & (self.phase != EMPTY)  # evicted
        self.tree.label[:, : self.slots] = phase - 1
        self.tree.rebuild()
        self.filled.copy_(counts(phase))
        self.rebuild_queue()
        self.refresh_strata()

    def pin(self, slots: Tensor, pinned: bool) -> None:
        """Protect the experiences in slots int64[L, B] from eviction, or end the protection."""
        flags = self.flags.gather(1, slots)
        self.flags.scatter_(1, slots, flags | PINNED if pinned else flags & ~PINNED)
        self.rebuild_queue()

    def _own(self) -> dict[str, Tensor]:
        named = {f"slot.{name}": wide[:, : self.slots] for name, wide in self._wide.items()}
        return named | {name: getattr(self, attribute) for name, attribute in STORED_LANES.items()}

    def tensors(self) -> dict[str, Tensor]:
        return {**self._own(), **self.tree.tensors()}

    def refresh(self) -> None:
        self.tree.rebuild()
        self._room = int((self.tail - self.head).min())
        self.refresh_strata()

    def clear(self) -> None:
        self.tree.clear()
        for wide in self._wide.values():
            wide.zero_()
        self.filled.zero_()
        self.max_priority.fill_(1.0)
        self.rebuild_queue()
        self.refresh_strata()

    def forget_draws(self) -> None:
        self.tree.forget_draws()

    def problems(self, state: Named, width: int) -> Problems:
        return ledger_problems(state, self.slots)

    def check(self) -> None:
        refuse(self.problems(self.tensors(), self.slots), AssertionError)
        self.tree.check()


def since(updated: Tensor, now: Tensor) -> Tensor:
    """int32[L, N]: time from `updated` int32[L, N] to now int64[L]. Both wrap around; correct below 2³¹ steps."""
    return now[:, None].to(torch.int32) - updated
