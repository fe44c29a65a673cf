"""The crystal memory: experiences that crystallize with use and melt when contradicted."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any, Self, Unpack

import torch
from torch import Tensor

from crystalrl.dynamics import EMPTY, PHASES
from crystalrl.lanes import per_lane
from crystalrl.memory.base import ReplayMemory
from crystalrl.memory.crystal import consolidate as consolidation
from crystalrl.memory.crystal import episode_boost as returns
from crystalrl.memory.crystal.anchors import Anchors
from crystalrl.memory.crystal.ledger import PINNED, CrystalLedger
from crystalrl.memory.crystal.novelty import Grid
from crystalrl.memory.crystal.report import Consolidation
from crystalrl.memory.crystal.snapshot import Draft, Plan
from crystalrl.memory.neighbours import graph_state as kept
from crystalrl.memory.neighbours.features import Compared, Features
from crystalrl.memory.neighbours.graph import Vicinity
from crystalrl.memory.neighbours.groups import all_pairs, joined
from crystalrl.memory.neighbours.index import have_faiss
from crystalrl.memory.neighbours.neighbourhood import Surroundings, exact, needs_near
from crystalrl.memory.storage.checkpoint import CheckpointError
from crystalrl.memory.storage.layout import TERMINATED, TRUNCATED
from crystalrl.memory.storage.spec import Shape, StorageOptions, StorageSpec
from crystalrl.params import CrystalParams
from crystalrl.types import Anchor, ArrayLike, Batch, Evaluate, Transition

LANE_FIELDS = ("alpha", "beta", "sigma", "leak", "melt", "settle", "w1", "w2", "w3", "Z", "epsilon", "delta_r")
"""Parameters that a consolidation needs lane by lane."""
EXACT = {"cpu": 16_384, "cuda": 16_384}
"""Slots up to which all pairs are compared in each consolidation; above, neighbour lists are kept."""


class CrystalMemory(Compared, ReplayMemory):
    """Replay memory in which every experience has a state c in [0, 1] (Adaptive Memory Crystallization).

    Experiences pass from liquid to glass to crystal as c rises; c decides what is kept, what is replayed, how much the
    TD loss of a replayed experience counts and how firmly its anchor holds the network. Invariants: those of its
    ledger; an anchor is the network's output at the first evaluation and follows it the less the higher c is.

        memory = CrystalMemory(100_000, obs=(17,), action=(6,), params=CrystalParams.anchored(), anchor={"q": (2,)})
        if memory.due:
            report = memory.consolidate(agent.evaluate)
    """

    params: CrystalParams
    ledger: CrystalLedger

    def __init__(
        self,
        capacity: int,
        *,
        params: CrystalParams | None = None,
        anchor: Mapping[str, Shape] | None = None,
        features: Features | None = None,
        **storage: Unpack[StorageOptions],
    ) -> None:
        params = params or CrystalParams()
        super().__init__(StorageSpec(capacity, **storage))
        self.params = params
        lanes, device = self.lanes, self.device
        self.turns = torch.zeros(lanes, dtype=torch.int64, device=device)
        """Consolidations of each lane so far: also the tick of its noise, so that a lane is the same alone."""
        self.ledger = self._ledger()
        self._features = features
        self._lane_values = {
            name: per_lane(name, value, lanes, device)
            for name in LANE_FIELDS
            if (value := getattr(self.params, name)) is not None
        }
        self.anchors = Anchors(anchor or {}, lanes, capacity, self.params, device)
        size = self.grid_vectors(self.arena.unpack(self.arena.rows[:, :1])).shape[-1]
        self.grid = Grid(lanes, capacity, size, self.params.cell, device)
        self.started = torch.zeros(lanes, self.spec.envs, dtype=torch.int64, device=device)
        """Number of the first experience of each environment's current episode."""
        self.ended = torch.zeros(lanes, 1, dtype=torch.bool, device=device)
        """Lanes in which an episode ended since their last consolidation, where that matters."""
        self.steps = torch.zeros(1, dtype=torch.int64)
        """Steps given since the last consolidation of all lanes."""
        self._steps = self.steps.numpy()
        self.vicinity: Vicinity | None = None
        """Neighbour lists, where all pairs would be too many."""

    def _ledger(self) -> CrystalLedger:
        liquid = self.params.caps(self.capacity)[0]
        if self.spec.envs * self.spec.n_step > liquid:
            wanted = f"envs × n_step = {self.spec.envs * self.spec.n_step}"
            raise ValueError(f"capacity: wanted at least {wanted} liquid slots, got {liquid} of {self.capacity}")
        clock = self.turns if self.params.clock == "calls" else self.time
        return CrystalLedger(self.spec, self.streams, self.params, clock)

    @classmethod
    def _restore(cls, storage: dict[str, Any], params: dict[str, Any]) -> Self:
        if params["features"]:
            raise CheckpointError("its states are compared by features: build the memory with them and call `load`")
        anchor = {name: tuple(shape) for name, shape in params["anchor"].items()}
        return cls(**storage, params=CrystalParams.from_json(params["crystal"]), anchor=anchor)

    def _header(self) -> dict[str, Any]:
        anchor = {name: list(tensor.shape[2:]) for name, tensor in self.anchors.items()}
        own = {"crystal": self.params.to_json(), "anchor": anchor, "features": self._features is not None}
        return {**super()._header(), "params": own}

    def add(
        self, transition: Transition, *, valid: ArrayLike | None = None, crystallization: ArrayLike | None = None
    ) -> Tensor:
        """As every memory; what this call stores starts with c = `crystallization` (a number, or one per environment):
        0, or more for demonstrations that deserve trust from the start.
        """
        recording = self.device.type == "cuda" and torch.cuda.is_current_stream_capturing()
        if not recording:
            self.ledger.reserve(self._width)  # an error here comes before anything has changed
        slots = self._add(transition, valid, None if crystallization is None else self._checked_c(crystallization))
        if not recording:
            self._steps += self.spec.envs
        if self.params.every_episode:
            ended = self._flag(transition.terminated) | self._flag(transition.truncated)
            self.ended |= ended if ended.shape[-1] == 1 else ended.any(-1, keepdim=True)
        return slots

    def _commit_one(self, c: Tensor | None) -> int:
        return self.ledger.add_one(c)

    def _commit(self, slots: Tensor, c: Tensor | None) -> None:
        self.ledger.commit(slots, c)

    def _flag(self, flag: ArrayLike) -> Tensor:
        """bool[L, E], or [1, 1] for a single one."""
        given = torch.as_tensor(flag, device=self.device).bool()
        return given.reshape(self.lanes, -1) if given.dim() else given.reshape(1, 1)

    def reserve(self) -> None:
        self.ledger.reserve(self._width)
        self._steps += self.spec.envs

    @property
    def _width(self) -> int:
        """Slots that one call may write."""
        return self.spec.envs * self.spec.n_step

    def _checked_c(self, value: ArrayLike) -> Tensor:
        c = torch.as_tensor(value, dtype=torch.float32, device=self.device)
        if c.dim() == 0:
            c = c.expand(self.lanes, 1)
        elif tuple(c.shape) == ((self.lanes, self.spec.envs) if self.spec.lanes is not None else (self.spec.envs,)):
            c = c.reshape(self.lanes, -1).repeat_interleave(self.spec.n_step, dim=1)
        else:
            raise ValueError(f"crystallization: wanted a number or one per environment, got shape {tuple(c.shape)}")
        if not bool(((c >= 0) & (c <= 1)).all()):
            raise ValueError(f"crystallization: wanted numbers in [0, 1], got {value!r}")
        return c

    def end_episode(self, ended: ArrayLike | None = None, episode_return: ArrayLike | None = None) -> Tensor:
        """Close the n-step windows of environments whose episode ended; its return raises its experiences' utility.

        The boost is the return over the largest return there could be, R_max/(1 − γ) (Algorithm 3), held in [0, 1].
        """
        value = None if episode_return is None else returns.checked(self, episode_return)
        if self.windows is not None:
            self.ledger.reserve(self._width)
        slots = super().end_episode(ended, episode_return)
        mask = self._all_valid if ended is None else self._mask("ended", ended)
        if self.params.every_episode:
            self.ended |= mask.any(-1, keepdim=True)
        if self.params.boost and value is not None:
            returns.boost(self, mask, value)
        self.started = torch.where(mask, self.ledger.number[:, None], self.started)
        return slots

    @property
    def due(self) -> bool:
        """Whether so many steps have passed since the last consolidation, or an episode has ended where that counts."""
        return self._whole_due or (self.params.every_episode and bool(self.ended.any()))

    @property
    def _whole_due(self) -> bool:
        return int(self._steps[0]) >= self.params.interval(self.capacity)

    def consolidate(self, evaluate: Evaluate) -> Consolidation:
        """Let every experience crystallize or melt a little (Algorithm 1). `evaluate(batch)` gives TD errors [L, B],
        or an `Evaluation` with the outputs that anchors need.

        If only episodes have ended since, the lanes in which they did are consolidated; otherwise all.
        """
        return self.apply(self.plan(evaluate))

    def draft(self) -> Draft:
        """Copies of all that a consolidation of the lanes that are due rewrites."""
        self.intake.check()
        some = self.params.every_episode and not self._whole_due and bool(self.ended.any())
        lane = self.ended.clone() if some else torch.ones_like(self.ended)
        return Draft(self, lane, torch.zeros_like(self.steps) if some else self.steps.clone())

    def plan(self, evaluate: Evaluate, draft: Draft | None = None) -> Plan:
        """What `consolidate` would do; changes nothing. It may be computed in another thread, with a copy of the
        critic, from a draft taken before; see `crystalrl.memory.crystal.background`.
        """
        return consolidation.plan(self, draft or self.draft(), evaluate)

    def apply(self, plan: Plan) -> Consolidation:
        """Do what was planned. Slots rewritten since stay as they are: they wait for the next consolidation."""
        report = consolidation.apply(self, plan)
        draft = plan.draft
        self._filled = False  # eviction may have emptied a lane
        self.ended &= ~draft.ended
        self.steps -= draft.steps
        self.turns += draft.lane[:, 0]
        return report

    def surroundings(self, draft: Draft) -> Surroundings:
        """Who is near whom: from all pairs in lanes that hold little, from kept lists in others."""
        if not (needs_near(self) or self.params.interference != "none"):
            return exact(self, draft)
        many = draft.width > EXACT[self.device.type]
        if self.vicinity is not None:
            many = torch.where(draft.due, many, self.vicinity.held)
        if bool(many.any()) and self.device.type == "cpu" and not have_faiss():
            warnings.warn(
                f"a consolidation compares all pairs of {draft.slots:,} slots; to keep neighbour lists instead, "
                "install faiss-cpu (pip install 'crystalrl[faiss]')",
                stacklevel=4,
            )
            many = torch.zeros_like(many)
        if not bool(many.any()):
            self.vicinity = None
            return all_pairs(self, draft, torch.ones_like(many))
        self.vicinity = self.vicinity or Vicinity(self)
        around = self.vicinity.look(self, draft, many)
        few = draft.due & ~many
        return joined(around, all_pairs(self, draft, few), few) if bool(few.any()) else around

    def lane_value(self, name: str) -> Tensor:
        """A number of the parameters as float64[L, 1]."""
        return self._lane_values[name]

    def batch_of(self, slots: Tensor) -> Batch:
        """The experiences in slots int64[C] of every lane, as a batch for `evaluate`."""
        wide = slots.expand(self.lanes, -1)
        return self._deliver(wide.contiguous(), torch.ones(wide.shape, device=self.device))

    def _anchors_of(self, slots: Tensor) -> dict[str, Anchor] | None:
        if not self.anchors:
            return None
        found = self.anchors.of(slots, self.ledger)
        return {name: Anchor(*(self._outer_batch(x) for x in each)) for name, each in found.items()}

    def _outer_batch(self, x: Tensor) -> Tensor:
        x = self._send(x) if self.deliver != self.device else x
        return x[0] if self.spec.lanes is None else x

    def pin(self, index: Tensor, pinned: bool = True) -> None:
        """Never evict the experiences in these slots [B] or [L, B] (or allow it again): the paper's idea for safety."""
        slots = torch.as_tensor(index, device=self.device)
        lead = () if self.spec.lanes is None else (self.lanes,)
        if slots.dtype != torch.int64 or slots.dim() != len(lead) + 1 or tuple(slots.shape[:-1]) != lead:
            wanted = "[B]" if not lead else f"[{self.lanes}, B]"
            raise ValueError(f"pin: wanted int64 slots of shape {wanted}, got {slots.dtype} {list(slots.shape)}")
        slots = slots.view(self.lanes, -1)
        known = (slots >= 0) & (slots < self.capacity)
        if not bool((known & (self.ledger.phase.gather(1, slots * known) != EMPTY)).all()):
            raise ValueError("pin: wanted slots that hold an experience, got an empty or unknown one")
        flags = self.ledger.flags.gather(1, slots)
        self.ledger.flags.scatter_(1, slots, flags | PINNED if pinned else flags & ~PINNED)
        self.ledger.rebuild_queue()

    def experiences(self, phase: str | None = None, lane: int = 0) -> dict[str, Any]:
        """The stored experiences of a lane, of one phase or all: obs, action, reward, next_obs, discount, terminated,
        truncated, context, c, utility, phase and index, as tensors with one row per experience.
        """
        if phase is not None and phase not in PHASES[1:]:
            raise ValueError(f"phase: wanted one of {', '.join(PHASES[1:])} or None, got {phase!r}")
        phases = self.ledger.phase[lane]
        slots = (phases > 0 if phase is None else phases == PHASES.index(phase)).nonzero()[:, 0]
        rows = self.arena.rows[lane, slots]
        ending = self.arena.layout.torch_views(rows)["ending"]
        state = {"c": self.ledger.c, "utility": self.ledger.utility, "phase": self.ledger.phase}
        return {
            **self.arena.unpack(rows),
            "terminated": (ending & TERMINATED) > 0,
            "truncated": (ending & TRUNCATED) > 0,
            **{name: values[lane, slots] for name, values in state.items()},
            "index": slots,
        }

    def clear(self) -> None:
        super().clear()
        self.grid.clear()
        self.vicinity = None
        for tensor in (*self.anchors.values(), self.started, self.ended):
            tensor.zero_()
        self._steps *= 0

    @property
    def nbytes(self) -> int:
        """Bytes held: payload, ledger, anchors, visit counts, neighbour lists with their index."""
        lists = 0 if self.vicinity is None else self.vicinity.nbytes
        return super().nbytes + self.grid.nbytes + sum(anchor.nbytes for anchor in self.anchors.values()) + lists

    def state_dict(self) -> dict[str, Tensor]:
        lists = {} if self.vicinity is None else kept.tensors(self.vicinity, self.ledger.used)
        return {**super().state_dict(), **lists}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        lists = {name: tensor for name, tensor in state.items() if name.startswith(kept.PREFIX)}
        vicinity = kept.checked(self, lists) if lists else None
        super().load_state_dict({name: tensor for name, tensor in state.items() if name not in lists})
        if vicinity is not None:
            kept.fill(vicinity, lists)
        self.vicinity = vicinity

    def _tensors(self) -> dict[str, Tensor]:
        own = {name: getattr(self, name) for name in ("started", "ended", "steps", "turns")} | self.grid.tensors()
        own |= {f"slot.anchor.{name}": anchor for name, anchor in self.anchors.items()}
        return {**super()._tensors(), **{f"crystal.{name}": tensor for name, tensor in own.items()}}
