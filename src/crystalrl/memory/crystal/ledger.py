"""The ledger of a crystal memory: c, utility, phase of every experience; where the next goes; what is replayed."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from crystalrl import backends
from crystalrl.backends import UNLABELLED
from crystalrl.dynamics import CRYSTAL, EMPTY, GLASS, LIQUID, next_phase
from crystalrl.lanes import per_lane
from crystalrl.memory.prioritized import annealed
from crystalrl.memory.sampling.strata import quotas
from crystalrl.memory.sampling.sum_tree import Gate, Learning, WeightTree
from crystalrl.memory.storage.spec import StorageSpec
from crystalrl.params import CrystalParams
from crystalrl.random import Streams

EVALUATED, PINNED = 1, 2
_LANE_TENSORS = ("number", "highest", "filled", "queue", "head", "tail")
STORED = {"interference": "suspicion"}
TINY = 1e-6
"""Added to |δ| in draw weights, so that an experience without TD error stays drawable."""


class CrystalLedger:
    """State of L lanes × N slots.

    Invariants: the tree's label of a slot is its phase − 1 (empty: no label); `filled` counts the labels; c and utility
    lie in [0, 1]; empty slots have weight 0, occupied ones more; `queue[head:tail]` names slots that may be written,
    the first to go first: free ones, then liquid by utility, then liquid not yet evaluated by age.
    """

    c: Tensor
    utility: Tensor
    error: Tensor
    """|δ|."""
    interference: Tensor
    """W: how far an experience, or its future, is contradicted."""
    key: Tensor
    """Random, given to each new crystal: of too many crystals those with the smallest keys stay."""
    streak: Tensor
    flags: Tensor
    birth: Tensor
    """Number of the experience in its lane, in order of arrival."""
    updated: Tensor
    """Environment step (or consolidation, where time is counted in calls) up to which c has been moved; int32, whose
    differences stay right when it wraps: see `since`."""
    boost: Tensor
    env: Tensor
    """Environment an experience came from, where there are several and it matters."""

    def __init__(self, spec: StorageSpec, streams: Streams, params: CrystalParams, clock: Tensor) -> None:
        slots, self.n_step = spec.capacity, spec.n_step
        lanes, device = len(streams.seeds), streams.device
        self.lanes, self.slots, self.streams, self.params, self.clock = lanes, slots, streams, params, clock
        self._kernels, self._fused = backends.of(device), backends.fused_for(device)
        self.caps = params.caps(slots)
        self.tree = WeightTree(lanes, slots, 3, device)
        self.incoming, self.trusted = torch.zeros(lanes, 1, device=device), False
        """c of the experiences that are written next, float32[L, 1 or M], and whether it is not simply zero."""
        self._wide = self._state(lanes, slots + 1, spec.envs, device)
        for name, wide in self._wide.items():
            setattr(self, name, wide[:, :slots])
        self.number = torch.zeros(lanes, dtype=torch.int64, device=device)
        self.highest = torch.ones(lanes, device=device)
        self.filled = torch.zeros(lanes, 3, dtype=torch.float64, device=device)
        self.queue = torch.zeros(lanes, slots, dtype=torch.int32, device=device)
        self.head = torch.zeros(lanes, dtype=torch.int64, device=device)
        self.tail = torch.zeros(lanes, dtype=torch.int64, device=device)
        self._constants(device)
        if device.type == "cpu":
            named = {"label": self.tree.label, "claims": self.tree.claims, "clock": clock, **self._wide}
            named |= {name: getattr(self, name) for name in _LANE_TENSORS}
            self._numpy = {name: tensor.numpy() for name, tensor in named.items()}
            self._columns = [self._numpy[name] for name in self._wide]
        if self._fused is not None:
            env = self._wide.get("env", torch.zeros(0, dtype=torch.int32, device=device))
            columns = (self._floats, self._bytes, self._wide["birth"], self._wide["updated"], env)
            self._written_to = self._fused.Columns(*columns, clock, self.number, self.filled, torch.cat(self.enter))
        self._strata: dict[int, Tensor] = {}
        self.clear()

    def _state(self, lanes: int, width: int, envs: int, device: torch.device) -> dict[str, Tensor]:
        """Tensors [L, N + 1]: what every slot carries, and one spare column for writes that are skipped."""
        floats = ("c", "utility", "error", "interference", "key", *(("boost",) if self.params.boost else ()))

        def zeros(*shape: int, kind: torch.dtype = torch.float32) -> Tensor:
            return torch.zeros(*shape, lanes, width, dtype=kind, device=device)

        self._floats, self._bytes = zeros(len(floats)), zeros(2, kind=torch.uint8)
        """Columns of one dtype lie one behind the other."""
        state = dict(zip((*floats, "streak", "flags"), (*self._floats, *self._bytes), strict=True))
        state |= {"birth": zeros(kind=torch.int64), "updated": zeros(kind=torch.int32)}
        if self.params.boost and envs > 1:
            state["env"] = zeros(kind=torch.uint8 if envs <= 256 else torch.int32)
        return state

    def _constants(self, device: torch.device) -> None:
        params = self.params

        def lane(name: str) -> Tensor:
            return per_lane(name, getattr(params, name), self.lanes, device)

        self.is_exponent = lane("is_exponent")
        self.gate = Gate(self.c, lane("gate"), lane("w_min"))
        self.rule = Learning(TINY, lane("nu"), self.highest, self.c, self._wide["error"])
        liquid, crystal = lane("tau_L"), lane("tau_C")
        self.enter = (liquid.to(torch.float32), crystal.to(torch.float32))
        """τ_L, τ_C: above them an experience rises; float32[L, 1] like c, so that c = τ is not above it."""
        below = torch.full_like(crystal, -1.0) if params.band_C is None else crystal - params.band_C
        self.leave = ((liquid - params.band_L).to(torch.float32), below.to(torch.float32))
        """Below these one falls back."""

    @property
    def phase(self) -> Tensor:
        """uint8[L, N]: 0 empty, 1 liquid, 2 glass, 3 crystal."""
        return self.tree.label[:, : self.slots] + 1

    @property
    def generation(self) -> Tensor:
        return self.tree.claims[:, : self.slots, 0]

    def pin(self, slots: Tensor, pinned: bool) -> None:
        flags = self.flags.gather(1, slots)
        self.flags.scatter_(1, slots, flags | PINNED if pinned else flags & ~PINNED)
        self.rebuild_queue()

    @property
    def count(self) -> Tensor:
        return self.filled.sum(-1).to(torch.int64)

    @property
    def reach(self) -> Tensor:
        """int64[L]: slots below which everything lies that is occupied, lane by lane."""
        number = torch.arange(1, self.slots + 1, device=self.tree.label.device)
        return (number * (self.phase != EMPTY)).amax(-1)

    @property
    def used(self) -> int:
        return int(self.reach.max())

    @property
    def nbytes(self) -> int:
        return self.tree.nbytes + sum(tensor.nbytes for tensor in self._own().values())

    def rebuild_queue(self) -> None:
        """List anew the slots that may be written. Doing it early changes nothing in the order."""
        phase = self.phase
        free, pinned = phase == EMPTY, (self.flags & PINNED) > 0
        writable = free | ((phase == LIQUID) & ~pinned)
        fresh = (self.flags & EVALUATED) == 0
        rank = torch.where(free, -2.0, torch.where(fresh, 2.0, self.utility.to(torch.float64)))
        rank = torch.where(writable, rank, torch.inf)
        age = torch.where(free, torch.arange(self.slots, device=free.device), self.birth)
        by_age = age.argsort(dim=1, stable=True)
        order = rank.gather(1, by_age).argsort(dim=1, stable=True)
        self.queue.copy_(by_age.gather(1, order))
        self.head.zero_()
        self.tail.copy_(writable.sum(-1))
        self._room = int(self.tail.min())

    def reserve(self, width: int) -> None:
        """Set aside `width` of the listed slots, listing anew if there are fewer; an error if fewer may be written."""
        if self._room < width:
            self.rebuild_queue()
        if self._room < width:
            raise RuntimeError(f"add: wanted {width} slots, but only {self._room} are not glass, crystal or pinned")
        self._room -= width
        if self._liquid_was_empty:
            self.refresh_strata()

    def allocate(self, valid: Tensor) -> Tensor:
        if self._fused is not None:
            placed: Tensor = self._fused.place(valid, self.head, self.slots, self.queue)
            return placed
        rank = valid.cumsum(-1) - 1
        slots = self.queue.gather(1, (self.head[:, None] + rank).clamp(0, self.slots - 1)).to(torch.int64)
        self.head += rank[:, -1] + 1
        return torch.where(valid, slots, -1)

    def commit(self, slots: Tensor, c: Tensor | None = None) -> None:
        self.incoming = torch.zeros(self.lanes, 1, device=self.head.device) if c is None else c
        if self._fused is not None:
            given = {"incoming": self.incoming, "n_step": self.n_step, "epsilon": TINY, "rises": self.params.phases}
            self.tree.write(slots, self.highest, columns=self._written_to, **given)
        else:
            self._write(slots)
        if self._liquid_was_empty and not (slots.is_cuda and torch.cuda.is_current_stream_capturing()):
            self.refresh_strata()

    def _write(self, slots: Tensor) -> None:
        kept, c = slots >= 0, self.incoming.expand(slots.shape)
        at = torch.where(kept, slots, self.slots)
        old = self.tree.label.gather(1, slots.clamp_min(0))
        values = {
            "c": c,
            "birth": self.number[:, None] + kept.cumsum(-1) - 1,
            "updated": self.clock[:, None].to(torch.int32),
        }
        if "env" in self._wide:
            values["env"] = (torch.arange(slots.shape[1], device=slots.device) // self.n_step).to(self.env.dtype)
        for name, wide in self._wide.items():
            value = values.get(name, torch.zeros((), dtype=wide.dtype, device=wide.device))
            wide.scatter_(1, at, value.expand(slots.shape).contiguous())
        self.number += kept.sum(-1)
        phase = self._phase_of(c)
        weight = self.rule.weight(phase - 1, self.highest[:, None].expand(slots.shape), slots.clamp_min(0))
        self.tree.set(slots, weight.contiguous(), phase - 1)
        self.tree.renew(slots)
        strata = torch.arange(3, device=old.device)
        labels = torch.stack([phase - 1, old], -1)[..., None]
        added, taken = ((labels == strata) & kept[..., None, None]).sum(1).unbind(1)
        self.filled += added - taken

    def add_one(self) -> int:
        view = self._numpy
        slot = int(view["queue"][0, view["head"][0]])
        view["head"][0] += 1
        if view["label"][0, slot] == UNLABELLED:
            view["filled"][0, 0] += 1
        for column in self._columns:
            column[0, slot] = 0
        view["birth"][0, slot] = view["number"][0]
        view["updated"][0, slot] = view["clock"][0].astype(np.int32)  # wraps
        view["number"][0] += 1
        self.tree.set_one(slot, float(view["highest"][0]), LIQUID - 1)
        if self._liquid_was_empty:
            self.refresh_strata()
        return slot

    def _phase_of(self, c: Tensor) -> Tensor:
        """uint8: where a new experience of crystallization c belongs."""
        liquid = torch.full(c.shape, LIQUID, dtype=torch.uint8, device=c.device)
        never = torch.full_like(self.enter[0], -1.0)
        return next_phase(liquid, c, self.enter, (never, never)) if self.params.phases else liquid

    def draw(self, size: int, time: Tensor) -> tuple[Tensor, Tensor]:
        if size not in self._strata:
            self._strata[size] = self._quota(size)
        exponent = annealed(self.is_exponent, self.params.is_steps, time)
        return self.tree.sample(self.streams, self._strata[size], self.filled, exponent, self.gate)

    def refresh_strata(self) -> None:
        """Recompute, in place, which stratum each place of a batch is drawn from: phases empty and fill."""
        for size, strata in self._strata.items():
            strata.copy_(self._quota(size))
        self._liquid_was_empty = bool((self.filled[:, 0] == 0).any())

    def _quota(self, size: int) -> Tensor:
        """uint8[L, B]: stratum of each place, liquid first."""
        upper = quotas(self.params.batch, self.params.split, size, self.filled > 0).cumsum(-1)
        place = torch.arange(size, device=upper.device)
        return (place[None, :, None] >= upper[:, None, :]).sum(-1).to(torch.uint8)

    def update(self, slots: Tensor, magnitude: Tensor) -> None:
        self.tree.learn(slots, magnitude, self.rule)

    def relabel(self, phase: Tensor, touched: Tensor) -> None:
        """Phases uint8[L, N] after a consolidation of the slots bool[L, N] (or lanes [L, 1]), which now are evaluated.

        Labels, weights, sums, counts, queue and quotas follow.
        """
        base, weight = self.rule.base(self.error), self.tree.weight[:, : self.slots]
        top = torch.where(touched & (phase != EMPTY), base, 0.0).amax(-1)
        torch.maximum(self.highest, top, out=self.highest)
        weight.copy_(torch.where(touched, self.rule.weight(phase - 1, base), weight))
        evicted = (phase == EMPTY) & (self.phase != EMPTY)
        self.tree.claims[:, : self.slots, 0] += evicted
        self.tree.label[:, : self.slots] = phase - 1
        self.tree.rebuild()
        self.filled.copy_(torch.stack([(phase == p).sum(-1) for p in (LIQUID, GLASS, CRYSTAL)], -1))
        self.rebuild_queue()
        self.refresh_strata()

    def holds(self, slots: Tensor) -> bool:
        """Whether every slot is occupied, or was when it was drawn (then `update` skips it)."""
        if self._kernels is not None:
            return bool(self._kernels.holds(self._numpy["label"], self._numpy["claims"], slots.numpy()))
        known_there = (self.tree.label.gather(1, slots) != UNLABELLED) | (
            self.tree.claims[:, :, 1].gather(1, slots) >= 0
        )
        return bool(known_there.all())

    def _own(self) -> dict[str, Tensor]:
        named = {f"slot.{STORED.get(name, name)}": wide[:, : self.slots] for name, wide in self._wide.items()}
        return named | {name: getattr(self, name) for name in _LANE_TENSORS}

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
        self.highest.fill_(1.0)
        self.rebuild_queue()
        self.refresh_strata()

    def forget_draws(self) -> None:
        self.tree.disclaim()

    def check(self) -> None:
        self.tree.check()
        phase = self.phase
        counted = torch.stack([(phase == p).sum(-1) for p in (LIQUID, GLASS, CRYSTAL)], -1)
        if bool((phase > CRYSTAL).any()) or not torch.equal(counted, self.filled.to(torch.int64)):
            raise AssertionError(f"filled: {self.filled.tolist()} but the labels count {counted.tolist()}")
        for name in ("c", "utility", "interference"):
            values = getattr(self, name)
            if not bool(((values >= 0) & (values <= 1)).all()):
                raise AssertionError(f"{name}: outside [0, 1]")
        if not torch.equal(self.tree.weight[:, : self.slots] > 0, phase != EMPTY):
            raise AssertionError("weights: positive ones and occupied slots differ")
        place = torch.arange(self.slots, device=phase.device)
        waiting = (place >= self.head[:, None]) & (place < self.tail[:, None])
        if bool(((phase.gather(1, self.queue.to(torch.int64)) > LIQUID) & waiting).any()):
            raise AssertionError("queue: names glass or crystal")


def since(updated: Tensor, now: Tensor) -> Tensor:
    """int32[L, N]: time from `updated` int32[L, N] to now int64[L]. Both wrap, so it is right below 2³¹ steps."""
    return now[:, None].to(torch.int32) - updated
