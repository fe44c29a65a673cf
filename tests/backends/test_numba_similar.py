"""The loops over lists of similar experiences do what `Lists.offer` and plain Python do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

pytest.importorskip("numba")

from crystalrl.backends import numba_similar as loops
from crystalrl.memory.neighbours.lists import Lists

SLOTS, K, SIZE, ACTIONS = 150, 10, 3, 2
KINDS = (loops.FLAGGED, loops.GREATER, loops.APART)


class Example:
    """Random experiences of two contexts, and lists of some that are similar."""

    def __init__(self, seed: int, discrete: bool, summed: bool, kind: int) -> None:
        rng = np.random.default_rng(seed)
        self.states = rng.normal(size=(SLOTS, SIZE)).astype(np.float32)
        self.actions = rng.integers(0, 2, (SLOTS, 1)) if discrete else rng.normal(size=(SLOTS, ACTIONS))
        self.actions = self.actions.astype(np.float32)
        self.contexts, self.values = rng.integers(0, 2, SLOTS), rng.integers(0, 5, SLOTS)
        self.how, self.kind = (np.float32(2.0), discrete, summed), kind
        self.classes = (kind, self.values, 1)
        rows = np.concatenate([self.states, self.actions], 1)
        scale, action_scale = np.array([1, 2, 0.5], np.float32), np.full(self.actions.shape[1], 0.5, np.float32)
        self.labels = ((rows, 0), scale, (rows, SIZE), action_scale, self.contexts)
        self.scaled, self.scaled_actions = torch.from_numpy(self.states * scale), torch.from_numpy(self.actions * 0.5)
        self.lists = Lists(1, SLOTS, K, torch.device("cpu"))
        self.offer(torch.arange(SLOTS), torch.from_numpy(rng.integers(0, SLOTS, (SLOTS, 20))))
        self.slots = torch.from_numpy(rng.permutation(SLOTS)[:40])
        self.near = torch.from_numpy(rng.integers(-1, SLOTS, (40, 30)))

    def distance(self, lane: Tensor, slot: Tensor, others: Tensor) -> Tensor:
        epsilon, discrete, summed = self.how
        far = (self.scaled[others] - self.scaled[slot][:, None]).norm(dim=-1)
        if discrete:
            unlike = (self.actions[others] != self.actions[slot][:, None])[..., 0]
            apart = torch.where(torch.from_numpy(unlike), 2**0.5 if summed else torch.inf, 0.0)
        else:
            apart = (self.scaled_actions[others] - self.scaled_actions[slot][:, None]).norm(dim=-1)
        if summed:
            far = far + apart
            return far.masked_fill(far >= epsilon, torch.inf)
        far = torch.maximum(far, apart)
        foreign = torch.from_numpy(self.contexts[others] != self.contexts[slot][:, None])
        return far.masked_fill((far > epsilon) | foreign, torch.inf)

    def member(self, lane: Tensor, slot: Tensor, others: Tensor) -> Tensor:
        theirs, mine = torch.from_numpy(self.values)[others], torch.from_numpy(self.values)[slot][:, None]
        return {loops.FLAGGED: theirs != 0, loops.GREATER: theirs > mine, loops.APART: (theirs - mine).abs() > 1}[
            self.kind
        ]

    def offer(self, slots: Tensor, given: Tensor) -> None:
        self.lists.offer(torch.zeros_like(slots), slots, given, self.distance, self.member)

    def inputs(self, lists: Any) -> tuple[Any, ...]:
        return lists, self.labels, self.how, self.classes


def sets(lists: Any) -> list[list[int]]:
    return [sorted(j for j in each if j >= 0) for each in lists.tolist()]


examples = pytest.mark.parametrize(
    ("discrete", "summed", "kind"), [(d, s, k) for d in (False, True) for s in (False, True) for k in KINDS]
)


@examples
def test_lists_keep_the_nearest_of_both_classes(discrete: bool, summed: bool, kind: int) -> None:
    example = Example(0, discrete, summed, kind)
    mine = example.lists.index[0].numpy().copy()
    loops.offer(*example.inputs(mine), example.slots.numpy(), example.near.numpy().astype(np.int32))
    example.offer(example.slots, example.near)
    assert sets(mine) == sets(example.lists.index[0].numpy())
    assert max(map(len, sets(mine))) == K
    assert all(each == sorted(each, key=lambda j: j < 0) for each in mine.tolist())


@examples
def test_new_experiences_are_offered_to_the_lists_of_those_similar_to_them(
    discrete: bool, summed: bool, kind: int
) -> None:
    example = Example(1, discrete, summed, kind)
    mine, visited = example.lists.index[0].numpy().copy(), np.zeros(SLOTS, np.bool_)
    near = example.near.numpy().astype(np.int32)
    loops.offer_back(*example.inputs(mine), example.slots.numpy(), near, visited)
    within = example.distance(example.slots, example.slots, example.near.clamp_min(0))
    within = torch.isfinite(within) & (example.near >= 0) & (example.near != example.slots[:, None])
    owners = example.near[within].unique()
    given = torch.full((len(owners), 40), -1)
    for row, owner in enumerate(owners.tolist()):
        new = example.slots[((example.near == owner) & within).any(-1)]
        given[row, : len(new)] = new
    example.offer(owners, given)
    assert visited.nonzero()[0].tolist() == owners.tolist()
    assert sets(mine) == sets(example.lists.index[0].numpy())


def test_a_tally_counts_the_recent_and_the_older_members_of_a_list() -> None:
    rng = np.random.default_rng(0)
    lists = np.stack(
        [np.where(np.arange(K) < n, rng.permutation(SLOTS)[:K], -1) for n in rng.integers(0, K + 1, SLOTS)]
    )
    reward, birth = rng.integers(0, 3, SLOTS).astype(np.float32), rng.permutation(SLOTS)
    liquid, new, visited = (rng.random(SLOTS) < 0.3 for _ in range(3))
    out = np.empty((6, SLOTS), np.float32)
    loops.tally(lists.astype(np.int32), (reward, birth, liquid, new, visited), np.float32(0.5), out)
    for i, row in enumerate(lists.tolist()):
        members = [j for j in row if j >= 0]
        oldest = min((birth[j] for j in members if liquid[j]), default=np.inf)
        recent, older = [j for j in members if birth[j] >= oldest], [j for j in members if birth[j] < oldest]
        differing = sum(abs(reward[j] - reward[i]) > 0.5 for j in recent)
        unseen = sum(bool(new[j]) for j in recent) + bool(visited[i])
        wanted = [len(recent), sum(reward[recent]), differing, unseen, len(older), sum(reward[older])]
        assert out[:, i].tolist() == wanted
