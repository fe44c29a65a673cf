"""Which experiences are contradicted, and whose future is.

Rules, by name:

exists          the paper's: some stored experience lies within ε of mine in state plus action, and its reward differs
                from mine by more than δ_r. Symmetric, so the new are flagged with the old, and the more neighbours
                there are the surer one of them differs.
newer_majority  of the newer experiences within ε, same context and action, take the latest half, or five if that is
                more: most of these differ by more than δ_r, at least two of them. (All of the newer would include
                those that came with me, and find a change late.)
fresh_mean      the mean reward of the fresh experiences within ε, same action, differs from mine by more than δ_r.
                Fresh are the liquid ones and what came since the oldest of them: of what came, the useful is promoted,
                and the liquid alone would be a biased sample. Only glass and crystal can be contradicted.

The last two forgive noise. newer_majority: if most of the elders within ε differ, too, and three at least, I was an
outlier from the start. fresh_mean: there are at least three fresh, one of which has come since the last consolidation
(what nobody visits has not changed); three fifths of them differ from me one by one (a mixture is the edge of a
rewarded region, not a change), and their mean differs also by δ_r/2 from the mean of the elders within ε, me among
them.
`docs/interference.md` has the measurements.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from crystalrl.backends import backend_for
from crystalrl.dynamics import GLASS, LIQUID
from crystalrl.memory.neighbours.exact import Near, chunks, distances

FEWEST = 3
"""Fresh experiences that it takes to contradict (a single one may lie on the other side of an edge), and elders that it
takes to make an outlier."""
LATEST = 5
"""Of the newer experiences so many, the latest, are heard at least."""


@dataclass(frozen=True)
class Scene:
    """What the rules look at; every field [L, N, …].

    state, action float32 vectors (a discrete action is a single code and compared for equality; see `discrete`),
    reward, birth int64 (order of arrival), phase uint8, new bool (since the last consolidation), context int64 or None.
    """

    state: Tensor
    action: Tensor
    reward: Tensor
    birth: Tensor
    phase: Tensor
    new: Tensor
    context: Tensor | None
    discrete: bool

    @property
    def occupied(self) -> Tensor:
        return self.phase > 0

    @property
    def liquid(self) -> Tensor:
        return self.phase == LIQUID

    @cached_property
    def order(self) -> Tensor:
        """float32[L, N]: the how manieth to arrive of those here, which a float holds exactly."""
        return self.birth.argsort(-1).argsort(-1).to(torch.float32)

    def sorted(self, order: Tensor) -> Scene:
        """With the slots in the order int64[L, N]."""
        every = (self.state, self.action, self.reward, self.birth, self.phase, self.new, self.context)
        lane = torch.arange(len(order), device=order.device)[:, None]
        state, action, reward, birth, phase, new, context = (x if x is None else x[lane, order] for x in every)
        return Scene(state, action, reward, birth, phase, new, context, self.discrete)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Tally:
    """What lies within ε of each experience, float32[L, R]: of the fresh how many, the sum of their rewards, how many
    differ from mine by more than δ_r, how many are new; of the elders how many, and the sum of their rewards."""

    fresh: Tensor
    fresh_sum: Tensor
    against: Tensor
    new: Tensor
    elders: Tensor
    elder_sum: Tensor

    def changed(self, mine: Tensor, delta_r: Tensor) -> Tensor:
        """bool[L, R]: someone has come lately, and the fresh differ from mine (reward [L, R]), most of them one by one,
        and from what was there."""
        fresh, elders = self.fresh_sum / self.fresh.clamp_min(1), (self.elder_sum + mine) / (self.elders + 1)
        changed = ((fresh - mine).abs() > delta_r) & ((fresh - elders).abs() > delta_r / 2)
        return (self.fresh >= FEWEST) & (5 * self.against >= 3 * self.fresh) & changed & (self.new > 0)


LOWEST = {"exists": LIQUID, "newer_majority": LIQUID, "fresh_mean": GLASS}
"""The lowest phase that each rule contradicts."""


def contradicted(rule: str, scene: Scene, epsilon: Tensor, delta_r: Tensor) -> Tensor:
    """bool[L, N]: flagged by the rule; epsilon and delta_r float32[L, 1]."""
    flagged, pairs = torch.zeros_like(scene.occupied), backend_for(scene.state.device).pairs
    if rule == "none":
        return flagged
    if rule == "newer_majority":  # it wants the latest first
        order = scene.birth.argsort(-1, descending=True)
        scene = scene.sorted(order)
        pairs = None if pairs is None or pairs.votes is None else pairs
    asked = scene.phase >= LOWEST[rule]
    if pairs is not None:
        flagged = _judged(pairs, rule, scene, asked, epsilon, delta_r)
    else:
        look = {"exists": _exists, "newer_majority": _newer_majority, "fresh_mean": _fresh_mean}[rule]
        lanes, slots = scene.phase.shape
        for part in chunks(slots, 3 * lanes, slots, scene.phase.device):
            flagged[:, part] = look(scene, part, epsilon[:, None], delta_r[:, None])
    flagged &= asked
    return flagged.gather(1, order.argsort(-1)) if rule == "newer_majority" else flagged


def _judged(pairs: Any, rule: str, scene: Scene, asked: Tensor, epsilon: Tensor, delta_r: Tensor) -> Tensor:
    """By the kernels, of those that are asked for; for `exists` all count as fresh, and the paper knows no contexts."""
    marked = (scene.occupied, scene.liquid, scene.new, asked)
    marks = sum((mark.to(torch.uint8) << bit for bit, mark in enumerate(marked)), torch.zeros_like(scene.phase))
    context = None if rule == "exists" else scene.context
    counted = (scene.state, scene.action, scene.reward, scene.order, marks, epsilon, delta_r, context, scene.discrete)
    if rule == "newer_majority":
        return _majority(*pairs.votes(*counted, LATEST))
    tally = Tally(*pairs.tally(rule == "fresh_mean", *counted))
    return tally.against > 0 if rule == "exists" else tally.changed(scene.reward, delta_r)


def _exists(scene: Scene, rows: slice, epsilon: Tensor, delta_r: Tensor) -> Tensor:
    apart = distances(scene.state[:, rows], scene.state) + _action_distance(scene, rows)
    return ((apart <= epsilon) & _differ(scene, rows, delta_r) & _others(scene, rows)).any(-1)


def _newer_majority(scene: Scene, rows: slice, epsilon: Tensor, delta_r: Tensor) -> Tensor:
    near = _apart(scene, rows) <= epsilon
    newer = scene.birth[:, None, :] > scene.birth[:, rows, None]
    return _outvoted(near & newer, near & ~newer, _differ(scene, rows, delta_r))


def _outvoted(newer: Tensor, elders: Tensor, differ: Tensor) -> Tensor:
    """Most of the latest of the newer differ, at least two of them, and not most of the elders, too; masks […, N] with
    the latest first."""
    heard = newer & (newer.cumsum(-1, dtype=torch.int32) <= (_count(newer) / 2).ceil().clamp_min(LATEST)[..., None])
    return _majority(_count(heard), _count(heard & differ), _count(elders), _count(elders & differ))


def _majority(heard: Tensor, against: Tensor, elders: Tensor, at_odds: Tensor) -> Tensor:
    """Whether those who are heard outvote one, and it was no outlier; counts of any shape."""
    outlier = (2 * at_odds > elders) & (at_odds >= FEWEST)
    return (against >= 2) & (2 * against > heard) & ~outlier


def _fresh_mean(scene: Scene, rows: slice, epsilon: Tensor, delta_r: Tensor) -> Tensor:
    near, differ = _apart(scene, rows) <= epsilon, _differ(scene, rows, delta_r)
    fresh = near & _since(near & scene.liquid[:, None, :], scene.order[:, None, :])
    columns = torch.stack([torch.ones_like(scene.reward), scene.reward, scene.new.to(torch.float32)], -1)
    (count, total, new), (elders, before, _) = (
        torch.bmm(mask.to(torch.float32), columns).unbind(-1) for mask in (fresh, near & ~fresh)
    )
    tally = Tally(count, total, _count(fresh & differ), new, elders, before)
    return tally.changed(scene.reward[:, rows], delta_r[..., 0])


def _since(liquid: Tensor, order: Tensor) -> Tensor:
    """bool[…, N]: as new as the oldest of the liquid ones […, N], or newer; order: of arrival."""
    return order >= torch.where(liquid, order, torch.inf).amin(-1, keepdim=True)


def _count(mask: Tensor) -> Tensor:
    """Entries of the mask [L, R, N] per row; through floats, which torch adds up far faster than booleans."""
    return mask.to(torch.float32).sum(-1)


def _self(scene: Scene, rows: slice) -> Tensor:
    """bool[R, N]: the row itself."""
    number = torch.arange(scene.phase.shape[1], device=scene.phase.device)
    return number[rows, None] == number


def _others(scene: Scene, rows: slice) -> Tensor:
    """bool[L, R, N]: occupied and not the row itself."""
    return scene.occupied[:, None, :] & ~_self(scene, rows)


def _differ(scene: Scene, rows: slice, delta_r: Tensor) -> Tensor:
    return (scene.reward[:, rows, None] - scene.reward[:, None, :]).abs() > delta_r


def _action_distance(scene: Scene, rows: slice) -> Tensor:
    """As the paper adds it to the state's; for discrete actions the distance of their one-hot codes."""
    if scene.discrete:
        return (scene.action[:, rows] != scene.action.transpose(1, 2)) * 2**0.5
    return distances(scene.action[:, rows], scene.action)


def _apart(scene: Scene, rows: slice) -> Tensor:
    """float32[L, R, N]: distance in state or in a box action, whichever is larger; infinite between different discrete
    actions or contexts, and to empty slots and oneself.
    """
    state, action = distances(scene.state[:, rows], scene.state), _action_distance(scene, rows)
    unlike = ~_others(scene, rows)
    if scene.discrete:
        unlike |= action > 0
    else:
        state = torch.maximum(state, action)
    if scene.context is not None:
        unlike |= scene.context[:, rows, None] != scene.context[:, None, :]
    return state.masked_fill(unlike, torch.inf)


SAMPLED = 512
"""Experiences from which ε is measured, evenly over the slots."""
BUSY = 8192
"""Rows that keep all of a CUDA device busy with the kernel over all pairs; fewer are faster as products of matrices."""


def spacing(scene: Scene, k: int, step: int | None = None, stop: int | None = None) -> Tensor:
    """float32[L, 1]: the ε within which the median liquid experience has k liquid ones like it; from every `step`-th.

    Fresh experiences lie dense where the learner is now, which is where contradictions are found; old contexts, of
    which few experiences are left, would make ε reach from one context into another. The median is over experiences
    that have k such others at any distance; 0 if there is none.
    """
    lanes, slots = scene.phase.shape
    if k >= slots:
        return torch.zeros(lanes, 1, device=scene.state.device)
    step, stop = step or -(-slots // SAMPLED), stop or slots
    asked, found = torch.arange(0, stop, step, device=scene.state.device), []
    pairs = backend_for(scene.state.device).pairs if not asked.is_cuda or lanes * len(asked) >= BUSY else None
    if pairs is not None:
        alike = (scene.action, scene.context, scene.discrete)
        kth = pairs.nearest(scene.state, scene.state, scene.liquid, asked, k, *alike)[1][..., -1]
        found.append(torch.where(scene.liquid[:, asked] & torch.isfinite(kth), kth, torch.nan))
    for part in chunks(-(-stop // step), 3 * lanes, slots, scene.phase.device) if pairs is None else ():
        rows = slice(part.start * step, min(part.stop * step, stop), step)
        kth = _apart(scene, rows).masked_fill(~scene.liquid[:, None, :], torch.inf).kthvalue(k, dim=-1).values
        found.append(torch.where(scene.liquid[:, rows] & torch.isfinite(kth), kth, torch.nan))
    return torch.cat(found, -1).nanmedian(-1, keepdim=True).values.nan_to_num(0.0)


def back_up(
    flagged: Tensor, near: Near, alive: Tensor, factor: float, sweeps: int, last: Tensor | None = None
) -> Tensor:
    """W float32[L, N]: W ← max(I, factor·mean W of the neighbours of s′), so many times, from I or from the last W.

    flagged bool[L, N] is I; alive bool[L, N]: whether the episode went on after s′. Both ways lead to the same W, which
    is unique for factor < 1. From I it is reached from below. From the last W one or two sweeps do, but what is no
    longer contradicted is slow to be forgotten: experiences that are each other's future keep suspicion alive.
    """
    suspicion = own = flagged.to(torch.float32)
    if last is not None:
        suspicion = torch.maximum(own, last)
    zero = torch.zeros(len(own), 1, device=own.device)
    if not bool(suspicion.any()):
        return suspicion
    for _ in range(sweeps):
        before, suspicion = suspicion, torch.maximum(own, factor * near.mean(suspicion, zero, first=5) * alive)
        if torch.equal(before, suspicion):
            break
    return suspicion


Kind = Callable[[Tensor, Tensor, Tensor], Tensor]
"""(lane int64[P], slot int64[P], others int64[P, T]) → bool[P, T]."""


def kinds(rule: str, birth: Tensor, phase: Tensor) -> Kind | None:
    """The two kinds of experiences that a rule weighs against each other: fresh or not, newer or not; None: one."""
    if rule == "exists":
        return None

    def fresh(lane: Tensor, slot: Tensor, others: Tensor) -> Tensor:
        return phase[lane[:, None], others] == LIQUID

    def newer(lane: Tensor, slot: Tensor, others: Tensor) -> Tensor:
        return birth[lane[:, None], others] > birth[lane, slot][:, None]

    return fresh if rule == "fresh_mean" else newer


def listed(
    rule: str,
    lists: Tensor,
    reward: Tensor,
    birth: Tensor,
    phase: Tensor,
    new: Tensor,
    delta_r: Tensor,
    visited: Tensor | None = None,
) -> Tensor:
    """bool[L, N]: flagged by the rule, judged by the experiences within ε that the lists [L, N, K] name (−1: none).

    visited bool[L, N]: has a new one within ε, listed or not.
    """
    lanes, slots, k = lists.shape
    every = (reward, birth, phase, new, delta_r.expand(lanes, slots))
    rewards, births, phases, news, wide = (x.reshape(-1) for x in every)
    flagged = torch.zeros_like(phases, dtype=torch.bool)
    base = torch.arange(lanes, device=lists.device, dtype=torch.int32)[:, None, None] * slots
    named = (lists if lanes == 1 else torch.where(lists >= 0, lists + base, -1)).reshape(-1, k)
    for rows in torch.arange(lanes * slots, device=lists.device).split(1 << 17):
        names = named[rows]
        flat, there, mine, delta = names.clamp_min(0).flatten(), names >= 0, rewards[rows], wide[rows]
        theirs = rewards.index_select(0, flat).view(names.shape)
        differ = ((theirs - mine[:, None]).abs() > delta[:, None]) & there
        if rule == "exists":
            flagged[rows] = differ.any(-1)
            continue
        born = births.index_select(0, flat).view(names.shape)
        if rule == "newer_majority":
            newer, latest_first = born > births[rows, None], born.argsort(-1, descending=True)
            masks = (there & newer, there & ~newer, differ)
            flagged[rows] = _outvoted(*(mask.gather(1, latest_first) for mask in masks))
            continue
        liquid = (phases.index_select(0, flat).view(names.shape) == LIQUID) & there
        fresh = there & _since(liquid, born.to(torch.float64))
        elders = there & ~fresh
        seen = _count(news.index_select(0, flat).view(names.shape) & fresh)
        if visited is not None:
            seen += visited.reshape(-1)[rows]
        sums = ((theirs * mask).sum(-1) for mask in (fresh, elders))
        tally = Tally(_count(fresh), next(sums), _count(differ & fresh), seen, _count(elders), next(sums))
        flagged[rows] = tally.changed(mine, delta)
    return flagged.view(lanes, slots) & (phase >= LOWEST[rule])
