"""The crystal memory: experiences crystallize with use and melt when they are contradicted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from time import perf_counter
from typing import Any, ClassVar, Unpack

import torch
from torch import Tensor

from crystalrl.backends import recording
from crystalrl.dynamics import EMPTY
from crystalrl.memory.crystal import report
from crystalrl.memory.crystal.anchors import Anchors
from crystalrl.memory.crystal.consolidate import plan
from crystalrl.memory.crystal.contents import contents
from crystalrl.memory.crystal.episode_boost import Episodes
from crystalrl.memory.crystal.evaluate import evaluate_all
from crystalrl.memory.crystal.inputs import checked_c, checked_return, occupied_slots, refuse_too_few_liquid
from crystalrl.memory.crystal.ledger import CrystalLedger
from crystalrl.memory.crystal.novelty import Grid
from crystalrl.memory.crystal.report import Consolidation
from crystalrl.memory.crystal.snapshot import Clock, Plan, Shared, Snapshot, lane_params, take_snapshot
from crystalrl.memory.crystal.stored import StoredCrystals
from crystalrl.memory.crystal.summary import summary
from crystalrl.memory.exclusive import exclusive
from crystalrl.memory.neighbours.features import FeatureMap, Features
from crystalrl.memory.neighbours.neighbourhood import Neighbours
from crystalrl.memory.storage.arena import Arena
from crystalrl.memory.storage.external import ExternalArena
from crystalrl.memory.storage.spec import Shape, StorageOptions, StorageSpec
from crystalrl.params import CrystalParams
from crystalrl.params_checks import require_params
from crystalrl.types import ArrayLike, Evaluate, Transition


class CrystalMemory(StoredCrystals):
    """Replay memory in which every experience has a state c in [0, 1] (Adaptive Memory Crystallization).

    Experiences pass from liquid to glass to crystal as c rises. c decides what is kept, what is replayed, how much the
    TD loss of a replayed experience counts and how strongly its anchor pulls the network. Invariants: those of its
    ledger; an anchor starts as the network's output at the first evaluation, and follows it more slowly as c rises.

        memory = CrystalMemory(100_000, obs=(17,), action=(6,), anchor={"policy": (12,)})
        if memory.due:
            report = memory.consolidate(agent.evaluate)
    """

    params: CrystalParams
    ledger: CrystalLedger
    codes_frames = True
    exact_up_to: ClassVar[dict[str, int]] = {"cpu": 16_384, "cuda": 16_384}
    """Slots, by device, up to which a consolidation compares all pairs; above, it keeps neighbour lists."""
    block: ClassVar[int] = 4096
    """A consolidation reads whole blocks of this many slots, up to the last occupied one."""

    def __init__(
        self,
        capacity: int,
        *,
        params: CrystalParams | None = None,
        anchor: Mapping[str, Shape] | None = None,
        features: FeatureMap | None = None,
        arena: ExternalArena | None = None,
        **storage: Unpack[StorageOptions],
    ) -> None:
        require_params(params, CrystalParams)
        super().__init__(StorageSpec.of(type(self), capacity, storage), arena)
        given = params or CrystalParams()
        self.params = given.for_anchors(anchor or ())
        lanes, device = self.lanes, self.device
        refuse_too_few_liquid(self.params.caps(capacity)[0], self._width, capacity)
        self.consolidations = torch.zeros(lanes, dtype=torch.int64, device=device)
        """Consolidations of each lane so far. Also the tick of its noise, so that a lane gets the same noise alone."""
        clock = self.consolidations if self.params.clock == "calls" else self.time
        self.ledger = CrystalLedger(self.spec, self.streams, self.params, clock)
        self.sampler = self.ledger.sampler()
        self.anchors = Anchors(anchor or {}, self.ledger, device)
        self.features = Features(self.spec, self.streams, features, self.params)
        self.neighbours = Neighbours(self.params, self.features, self.exact_up_to[device.type])
        """Which stored states are near each other: a cache, brought up to date by each consolidation."""
        blank = Arena(replace(self.spec, capacity=1, envs=1, n_step=1), self.packer.layout)
        size = self.features.grid_vectors(blank.unpack(blank.rows)).shape[-1]
        self.grid = Grid(lanes, capacity, size, self.params.cell, device)
        self._lane_params = lane_params(self.params, lanes, device)
        self.episodes = Episodes(self.spec, self.params.boost, isinstance(self.arena, ExternalArena))
        self.ended = torch.zeros(lanes, 1, dtype=torch.bool, device=device)
        """Lanes in which an episode ended since their last consolidation, where `every_episode` is set."""
        self.steps = torch.zeros(1, dtype=torch.int64, device="cpu")
        """Environment steps since the last consolidation of all lanes."""
        self._steps = self.steps.numpy()

    @exclusive
    def add(
        self, transition: Transition, *, valid: ArrayLike | None = None, crystallization: ArrayLike | None = None
    ) -> Tensor:
        """Store one step of every environment; see `ReplayMemory.add`.

        `crystallization` (a number, or one per environment) is the initial c, 0 by default; a higher value suits
        demonstrations.
        """
        c = None if crystallization is None else checked_c(self.spec, crystallization)
        slots = self._add(transition, valid, c)
        if not self._on_cuda or not recording(self.device):
            self._steps[0] += self.spec.envs
        if self.params.every_episode or self.params.boost:
            mask = self._all_valid if valid is None else self.packer.mask("valid", valid)
            ended = self.episodes.step(self.ledger, transition, mask)
            if self.params.every_episode:
                self.ended |= ended.any(-1, keepdim=True)
        return slots

    @exclusive
    def reserve(self) -> None:
        super().reserve()
        self._steps += self.spec.envs

    @exclusive
    def reserve_slots(self, count: int) -> Tensor:
        """Slots int64[count] for new experiences that an external arena stores; `commit` them once they are stored.

        A slot is free, or holds the least useful experience. Free slots are used in order, so storage fills without
        gaps.
        """
        slots = self.ledger.allocate(torch.ones(1, count, dtype=torch.bool, device="cpu"))[0]
        self.time += count
        return slots

    @exclusive
    def commit(self, slots: Tensor, ended: Tensor, env: Tensor | None = None) -> None:
        """Register the experiences stored in reserved slots int64[M]; ended bool[M]: whether each ends an episode.

        env int64[M]: environment or episode of each, for the returns of episodes; None: all come from one, in order.
        """
        if isinstance(self.arena, ExternalArena):
            self.arena.invalidate()
        self.ledger.commit(slots[None])
        self.steps += len(slots)
        if self.params.every_episode:
            self.ended |= ended.any()
        self.episodes.commit(self.ledger, self.arena, slots, ended, env)

    @exclusive
    def end_episode(self, ended: ArrayLike | None = None, episode_return: ArrayLike | None = None) -> Tensor:
        """Close the n-step windows of environments whose episode ended, and raise the utility of its experiences.

        The boost is the discounted return over the largest possible one, R_max/(1 − γ) (Algorithm 3), in [0, 1]. The
        memory counts the return itself; `episode_return` replaces it, also for an episode that `add` has just ended.
        """
        returns = None if episode_return is None else checked_return(self.spec, episode_return)
        slots = super().end_episode(ended, episode_return)
        mask = self._ended_mask(ended)
        if self.params.every_episode:
            self.ended |= mask.any(-1, keepdim=True)
        self.episodes.end(self.ledger, mask, returns)
        return slots

    @property
    def due(self) -> bool:
        """Whether enough steps have passed since the last consolidation, or, with `every_episode`, an episode ended."""
        return self._all_due or (self.params.every_episode and bool(self.ended.any()))

    @property
    def _all_due(self) -> bool:
        return int(self._steps[0]) >= self.params.interval(self.capacity)

    @exclusive
    def restart_clock(self) -> None:
        """Count time from now on, for example when learning starts: outputs cannot settle before. No effect if time is
        counted in consolidations.
        """
        if self.params.clock == "steps":
            self.ledger.updated.copy_(self.time[:, None].expand_as(self.ledger.updated))

    @exclusive
    def consolidate(self, evaluate: Evaluate) -> Consolidation:
        """Let every experience crystallize or melt a little (Algorithm 1). `evaluate(batch)` returns TD errors [L, B],
        or an `Evaluation` with the outputs that anchors need.

        If it is due only because episodes ended, only the lanes in which they ended are consolidated; otherwise all.
        """
        snapshot = self.snapshot()
        critic = evaluate_all(snapshot, evaluate)  # may raise: nothing has changed
        nearby = self.neighbours.refresh(snapshot)
        return self.apply(plan(snapshot, critic, nearby))

    @exclusive
    def plan(self, evaluate: Evaluate) -> Plan:
        """What `consolidate` would do; changes nothing. (Neighbour lists, where they are kept, are copied for it.)"""
        snapshot = self.snapshot()
        critic = evaluate_all(snapshot, evaluate)
        neighbours = self.neighbours.copied(self.arena)
        return replace(plan(snapshot, critic, neighbours.refresh(snapshot)), neighbours=neighbours)

    @exclusive
    def snapshot(self) -> Snapshot:
        """The input of a consolidation of the lanes that are due: copies of the ledger's columns, views of the rest."""
        self.packer.check()
        partly = self.params.every_episode and not self._all_due and bool(self.ended.any())
        due = self.ended.clone() if partly else torch.ones_like(self.ended)
        steps = torch.zeros_like(self.steps) if partly else self.steps.clone()
        clock = Clock(self.time.clone(), self.consolidations.clone(), self.ended.clone(), steps, self._loads)
        return take_snapshot(self.ledger, self.arena, self._shared(), due, clock)

    def _shared(self) -> Shared:
        return Shared(
            params=self.params, lane_params=self._lane_params, capacity=self.capacity, block=self.block,
            squeeze=self.spec.lanes is None, deliver=self.deliver, streams=self.streams, features=self.features,
            grid=self.grid, anchors=self.anchors,
        )  # fmt: skip

    @exclusive
    def apply(self, plan: Plan) -> Consolidation:
        """Write a plan. Slots rewritten since its snapshot are left to the next consolidation."""
        snapshot, begun = plan.snapshot, perf_counter()
        if snapshot.clock.loads != self._loads:
            raise RuntimeError("apply: wanted a plan of the current contents, got one from before a load")
        if not torch.equal(snapshot.consolidations, self.consolidations):
            raise RuntimeError("apply: wanted the plan of the next consolidation, got one from before another")
        kept = self.ledger.rewrite(vars(plan.columns), plan.phase, snapshot.due, snapshot.generation)
        self.anchors.rewrite(plan.anchors, kept, plan.unit)
        self.anchors.clear_slots(kept & (self.ledger.phase[:, : snapshot.slots] == EMPTY))
        self.grid.count_visits(plan.visits, kept)
        self.neighbours = plan.neighbours or self.neighbours
        self._filled = False  # eviction may have emptied a lane
        self.ended &= ~snapshot.clock.episode_ended
        self.steps.sub_(snapshot.clock.steps).clamp_(min=0)  # a `clear` in between has set them to 0
        self.consolidations += snapshot.due[:, 0]
        context = self.arena.fields()["context"]
        return report.consolidation(plan, self.ledger, self.anchors, context, self.time, begun)

    @exclusive
    def pin(self, index: Tensor, pinned: bool = True) -> None:
        """Never evict the experiences in these slots [B] or [L, B], or allow it again: the paper's idea for safety."""
        self.ledger.pin(occupied_slots(self.spec, index, self.ledger.phase), pinned)

    def experiences(self, phase: str | None = None, lane: int = 0, most: int | None = None) -> dict[str, Any]:
        """The stored experiences of a lane, of one phase or all: obs, action, reward, next_obs, discount, terminated,
        truncated, context, c, utility, error, interference, phase, number (order of arrival) and index (slot), one row
        per experience. most: largest number, evenly spaced over the slots.
        """
        return contents(self.ledger, self.arena, phase, lane, most)

    def inspected(self, lane: int, most: int) -> dict[str, Any]:
        found = self.experiences(lane=lane, most=most)
        return {**found, "anchors": {name: anchor[lane, found["index"]] for name, anchor in self.anchors.items()}}

    def summary(self) -> str:
        """What the memory holds, how full it is, what its anchors pull, and whether anything crystallizes."""
        return summary(self.ledger, self.anchors, self.consolidations)

    @exclusive
    def clear(self) -> None:
        super().clear()
        self.grid.clear()
        self.neighbours.clear()
        self.episodes.clear()
        self.anchors.clear_all()
        self.ended.zero_()
        self._steps *= 0

    @property
    def nbytes(self) -> int:
        """Bytes held: payload, ledger, anchors, visit counts, neighbour lists with their index."""
        anchors = sum(anchor.nbytes for anchor in self.anchors.values())
        return super().nbytes + self.grid.nbytes + anchors + self.neighbours.nbytes
