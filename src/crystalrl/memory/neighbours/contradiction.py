"""The interference rules: which experiences are contradicted by their neighbours (eq. interf).

The neighbours of an experience are the other stored experiences within ε of it. For `newer_majority` and `fresh_mean`
they must have the same context and the same discrete action; a box action must be within ε, too. Two rewards *differ*
if they are more than δ_r apart.

exists
    The paper's rule: the reward of at least one neighbour differs. The distance is that of the states plus that of the
    actions, and must be less than ε, not equal to it. The rule is symmetric, so it flags new experiences as well as old
    ones, and the more neighbours there are, the more likely one of them differs.

newer_majority
    Only the latest half of the newer neighbours counts, or the latest five if that is more. (All newer ones would
    include those that arrived right after the experience, and a change would be found late.) More than half of these
    must differ, and at least two. An experience from which most of the older neighbours differ as well, at least three
    of them, is an outlier and not flagged.

fresh_mean
    *Recent* neighbours are the liquid ones and all that arrived after the oldest of these; the others are *older*.
    (Useful experiences are promoted, so the liquid ones alone would be a biased sample.) Only glass and crystal can be
    contradicted. All of the following must hold:
    - The mean reward of the recent neighbours differs from the experience's own reward.
    - It is also more than δ_r/2 away from the mean reward of the older neighbours and the experience itself.
    - There are at least three recent neighbours.
    - Three fifths of them differ individually. (A mixture is the edge of a rewarded region, not a change.)
    - At least one of them has arrived since the last consolidation. (A place that is not visited has not changed.)

`docs/interference.md` has measurements.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType

import torch
from torch import Tensor

from crystalrl.backends.protocols import Pairs
from crystalrl.dynamics import GLASS, LIQUID
from crystalrl.memory.neighbours.exact import chunks
from crystalrl.memory.neighbours.experiences import Experiences, Outcomes

LOWEST_PHASE = {"exists": LIQUID, "newer_majority": LIQUID, "fresh_mean": GLASS}
"""The lowest phase in which each rule can contradict an experience."""
MIN_EVIDENCE = 3
"""Recent neighbours needed to contradict (a single one may lie on the other side of an edge), and older neighbours
that must differ to make an experience an outlier."""
MIN_NEWER = 5
"""The fewest newer neighbours that `newer_majority` takes into account, if there are that many."""


@dataclass(frozen=True)
class Tally:
    """Sums over the neighbours of each experience, float32 of the same shape, for `fresh_mean`."""

    recent: Tensor
    """Number of recent neighbours."""
    recent_sum: Tensor
    """Sum of the rewards of recent neighbours."""
    differing: Tensor
    """Number of recent neighbours whose reward differs."""
    unevaluated: Tensor
    """Number of recent neighbours that have arrived since the last consolidation."""
    older: Tensor
    """Number of older neighbours."""
    older_sum: Tensor
    """Sum of the rewards of older neighbours."""

    def contradicts(self, reward: Tensor, delta_r: Tensor) -> Tensor:
        """bool: whether `fresh_mean` flags experiences with these rewards."""
        recent, older = self.recent_sum / self.recent.clamp_min(1), (self.older_sum + reward) / (self.older + 1)
        changed = ((recent - reward).abs() > delta_r) & ((recent - older).abs() > delta_r / 2)
        enough = (self.recent >= MIN_EVIDENCE) & (5 * self.differing >= 3 * self.recent)
        return enough & changed & (self.unevaluated > 0)


def contradicted(
    rule: str, experiences: Experiences, epsilon: Tensor, delta_r: Tensor, pairs: Pairs | None = None
) -> Tensor:
    """bool[L, N]: flagged by the rule, from all pairs; epsilon and delta_r float32[L, 1]."""
    flagged = torch.zeros_like(experiences.occupied)
    if rule == "none":
        return flagged
    if rule == "newer_majority":  # it needs the neighbours sorted, the latest first
        order = experiences.birth.argsort(-1, descending=True)
        experiences = experiences.sorted(order)
        pairs = pairs if pairs is not None and pairs.votes is not None else None
    if rule == "exists":  # less than ε: at most the number below it
        epsilon = torch.where(epsilon > 0, torch.nextafter(epsilon, torch.zeros_like(epsilon)), -1.0)
    examined = experiences.phase >= LOWEST_PHASE[rule]
    if pairs is not None:
        flagged = _by_kernel(pairs, rule, experiences, examined, (epsilon, delta_r))
    else:
        judge = {"exists": _exists, "newer_majority": _newer_majority, "fresh_mean": _fresh_mean}[rule]
        lanes, slots = experiences.phase.shape
        for rows in chunks(slots, 3 * lanes, slots, experiences.phase.device):
            flagged[:, rows] = judge(experiences, rows, epsilon[:, None], delta_r[:, None])
    flagged &= examined
    return flagged.gather(1, order.argsort(-1)) if rule == "newer_majority" else flagged


def _by_kernel(
    pairs: Pairs, rule: str, experiences: Experiences, examined: Tensor, scales: tuple[Tensor, Tensor]
) -> Tensor:
    """bool[L, N] from compiled kernels, valid where `examined` bool[L, N] holds. For `exists` all neighbours count as
    recent, and contexts are not compared."""
    given, (epsilon, delta_r) = experiences, scales
    marked = (given.occupied, given.liquid, given.unevaluated, examined)
    marks = sum((mark.to(torch.uint8) << bit for bit, mark in enumerate(marked)), torch.zeros_like(given.phase))
    context = None if rule == "exists" else given.context
    inputs = (given.state, given.action, given.reward, given.arrival, marks, epsilon, delta_r, context, given.discrete)
    if rule == "newer_majority":
        assert pairs.votes is not None
        return _majority(*pairs.votes(*inputs, MIN_NEWER))
    tally = Tally(*pairs.tally(rule == "fresh_mean", *inputs))
    return tally.differing > 0 if rule == "exists" else tally.contradicts(given.reward, delta_r)


def _exists(experiences: Experiences, rows: slice, epsilon: Tensor, delta_r: Tensor) -> Tensor:
    near = experiences.summed_distance(rows) <= epsilon
    return (near & experiences.rewards_differ(rows, delta_r) & experiences.others(rows)).any(-1)


def _newer_majority(experiences: Experiences, rows: slice, epsilon: Tensor, delta_r: Tensor) -> Tensor:
    near = experiences.distance(rows) <= epsilon
    newer = experiences.birth[:, None, :] > experiences.birth[:, rows, None]
    return _contradicted_by_majority(near & newer, near & ~newer, experiences.rewards_differ(rows, delta_r))


def _contradicted_by_majority(newer: Tensor, older: Tensor, differ: Tensor) -> Tensor:
    """bool […] from masks […, N] of neighbours, the latest first."""
    limit = (_count(newer) / 2).ceil().clamp_min(MIN_NEWER)[..., None]
    latest = newer & (newer.cumsum(-1, dtype=torch.int32) <= limit)
    return _majority(_count(latest), _count(latest & differ), _count(older), _count(older & differ))


def _majority(latest: Tensor, latest_differing: Tensor, older: Tensor, older_differing: Tensor) -> Tensor:
    """Whether the latest neighbours contradict an experience by majority and it is not an outlier; counts of the same
    shape."""
    outlier = (2 * older_differing > older) & (older_differing >= MIN_EVIDENCE)
    return (latest_differing >= 2) & (2 * latest_differing > latest) & ~outlier


def _fresh_mean(experiences: Experiences, rows: slice, epsilon: Tensor, delta_r: Tensor) -> Tensor:
    near, differ = experiences.distance(rows) <= epsilon, experiences.rewards_differ(rows, delta_r)
    recent = near & _recent(near & experiences.liquid[:, None, :], experiences.arrival[:, None, :])
    reward = experiences.reward
    columns = torch.stack([torch.ones_like(reward), reward, experiences.unevaluated.to(torch.float32)], -1)
    (count, total, unevaluated), (older, older_total, _) = (
        torch.bmm(mask.to(torch.float32), columns).unbind(-1) for mask in (recent, near & ~recent)
    )
    tally = Tally(count, total, _count(recent & differ), unevaluated, older, older_total)
    return tally.contradicts(reward[:, rows], delta_r[..., 0])


def _recent(liquid: Tensor, arrival: Tensor) -> Tensor:
    """bool[…, N]: arrived with or after the oldest of the liquid ones […, N]; arrival: order of arrival."""
    return arrival >= torch.where(liquid, arrival, torch.inf).amin(-1, keepdim=True)


def _count(mask: Tensor) -> Tensor:
    """Entries of the mask […, N] per row; as floats, which torch sums far faster than booleans."""
    return mask.to(torch.float32).sum(-1)


NeighbourClass = Callable[[Tensor, Tensor, Tensor], Tensor]
"""(lane int64[P], slot int64[P], others int64[P, T]) → bool[P, T]: to which of two classes the others belong."""


def neighbour_class(rule: str, outcomes: Outcomes, delta_r: Tensor) -> NeighbourClass:
    """The two classes of neighbours that a rule compares: liquid or not, newer or not, with another reward or not."""
    birth, phase, reward = outcomes.birth, outcomes.phase, outcomes.reward

    def liquid(lane: Tensor, slot: Tensor, others: Tensor) -> Tensor:
        return phase[lane[:, None], others] == LIQUID

    def newer(lane: Tensor, slot: Tensor, others: Tensor) -> Tensor:
        return birth[lane[:, None], others] > birth[lane, slot][:, None]

    def differing(lane: Tensor, slot: Tensor, others: Tensor) -> Tensor:
        return (reward[lane[:, None], others] - reward[lane, slot][:, None]).abs() > delta_r[lane]

    return {"fresh_mean": liquid, "newer_majority": newer, "exists": differing}[rule]


def contradicted_in_lists(
    rule: str, lists: Tensor, outcomes: Outcomes, delta_r: Tensor, has_unevaluated: Tensor, loops: ModuleType | None
) -> Tensor:
    """bool[L, N]: flagged by the rule, from lists int32[L, N, K] of the slots within ε of each experience (−1: none).

    has_unevaluated bool[L, N]: whether an unevaluated experience lies within ε, listed or not. loops: `numba_similar`,
    which has a loop for `fresh_mean`.
    """
    lanes, slots, _ = lists.shape
    if loops is not None and rule == "fresh_mean":
        return _listed_mean_by_loop(loops, lists, outcomes, delta_r, has_unevaluated)
    flat = _Flat(lists, outcomes, delta_r, has_unevaluated)
    flagged = torch.zeros(lanes * slots, dtype=torch.bool, device=lists.device)
    judge = {"exists": _listed_exists, "newer_majority": _listed_majority, "fresh_mean": _listed_mean}[rule]
    for rows in torch.arange(lanes * slots, device=lists.device).split(1 << 17):
        flagged[rows] = judge(_Listed(flat, rows))
    return flagged.view(lanes, slots) & (outcomes.phase >= LOWEST_PHASE[rule])


def _listed_mean_by_loop(
    loops: ModuleType, lists: Tensor, outcomes: Outcomes, delta_r: Tensor, has_unevaluated: Tensor
) -> Tensor:
    sums = torch.empty(6, *outcomes.phase.shape, dtype=torch.float32, device="cpu")
    liquid = outcomes.phase == LIQUID
    for lane, delta in enumerate(delta_r.expand(len(lists), 1)[:, 0].numpy()):
        columns = (outcomes.reward, outcomes.birth, liquid, outcomes.unevaluated, has_unevaluated)
        mine = tuple(column[lane].contiguous().numpy() for column in columns)
        loops.tally(lists[lane].numpy(), mine, delta, sums[:, lane].numpy())
    return Tally(*sums).contradicts(outcomes.reward, delta_r) & (outcomes.phase >= LOWEST_PHASE["fresh_mean"])


class _Flat:
    """Lists and outcomes of all lanes as flat tensors [L·N, …]; the lists name positions in these."""

    def __init__(self, lists: Tensor, outcomes: Outcomes, delta_r: Tensor, has_unevaluated: Tensor | None) -> None:
        lanes, slots, k = lists.shape
        base = torch.arange(lanes, device=lists.device, dtype=torch.int32)[:, None, None] * slots
        self.lists = (lists if lanes == 1 else torch.where(lists >= 0, lists + base, -1)).reshape(-1, k)
        every = (outcomes.reward, outcomes.birth, outcomes.phase, outcomes.unevaluated, delta_r.expand(lanes, slots))
        self.reward, self.birth, self.phase, self.unevaluated, self.delta_r = (x.reshape(-1) for x in every)
        self.has_unevaluated = None if has_unevaluated is None else has_unevaluated.reshape(-1)


class _Listed:
    """The listed neighbours [R, K] of rows int64[R] of `_Flat`."""

    def __init__(self, flat: _Flat, rows: Tensor) -> None:
        names = flat.lists[rows]
        self.flat, self.rows, self.exists = flat, rows, names >= 0
        self._at = names.clamp_min(0).flatten()
        self.reward = self.of(flat.reward)
        apart = (self.reward - flat.reward[rows, None]).abs()
        self.differ = (apart > flat.delta_r[rows, None]) & self.exists

    def of(self, values: Tensor) -> Tensor:
        """[R, K] of values [L·N]; any value where a list is shorter."""
        return values.index_select(0, self._at).view(self.exists.shape)


def _listed_exists(near: _Listed) -> Tensor:
    return near.differ.any(-1)


def _listed_majority(near: _Listed) -> Tensor:
    birth = near.of(near.flat.birth)
    newer, latest_first = birth > near.flat.birth[near.rows, None], birth.argsort(-1, descending=True)
    masks = (near.exists & newer, near.exists & ~newer, near.differ)
    return _contradicted_by_majority(*(mask.gather(1, latest_first) for mask in masks))


def _listed_mean(near: _Listed) -> Tensor:
    flat, rows = near.flat, near.rows
    liquid = (near.of(flat.phase) == LIQUID) & near.exists
    recent = near.exists & _recent(liquid, near.of(flat.birth).to(torch.float64))
    older = near.exists & ~recent
    unevaluated = _count(near.of(flat.unevaluated) & recent)
    if flat.has_unevaluated is not None:
        unevaluated += flat.has_unevaluated[rows]
    recent_sum, older_sum = ((near.reward * mask).sum(-1) for mask in (recent, older))
    tally = Tally(_count(recent), recent_sum, _count(near.differ & recent), unevaluated, _count(older), older_sum)
    return tally.contradicts(flat.reward[rows], flat.delta_r[rows])
