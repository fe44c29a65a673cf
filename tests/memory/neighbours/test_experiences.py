"""Experiences as the interference rules compare them, pair by pair."""

from __future__ import annotations

from itertools import product
from math import dist, inf, sqrt

import pytest
import torch

from tests.backends.pairs import experiences

ROWS = slice(3, 20, 2)


@pytest.mark.parametrize("discrete", [True, False])
@pytest.mark.parametrize("contexts", [True, False])
def test_distances_are_those_of_single_pairs(discrete: bool, contexts: bool) -> None:
    here = experiences(30, 2, discrete, contexts, "cpu")
    assert (here.context is not None) == contexts
    apart, summed, others = here.distance(ROWS), here.summed_distance(ROWS), here.others(ROWS)
    for lane, (row, i), j in product(range(3), enumerate(range(30)[ROWS]), range(30)):
        state = dist(here.state[lane, i].tolist(), here.state[lane, j].tolist())
        action = dist(here.action[lane, i].tolist(), here.action[lane, j].tolist())
        if discrete:
            action = sqrt(2) * (action > 0)  # distance of one-hot codes
        known = i != j and bool(here.phase[lane, j] > 0)
        assert bool(others[lane, row, j]) == known
        assert float(summed[lane, row, j]) == pytest.approx(state + action, rel=1e-5, abs=1e-6)
        other_context = here.context is not None and here.context[lane, i] != here.context[lane, j]
        wanted = max(state, 0.0 if discrete else action)
        if not known or other_context or (discrete and action > 0):
            wanted = inf
        assert float(apart[lane, row, j]) == pytest.approx(wanted, rel=1e-5, abs=1e-6)


def test_rewards_differ_if_they_are_farther_apart_than_the_lanes_own_scale() -> None:
    here = experiences(30, 2, True, False, "cpu")
    differ = here.rewards_differ(ROWS, torch.tensor([[0.5], [1.0], [0.5]]).view(3, 1, 1))
    for lane, (row, i), j in product(range(3), enumerate(range(30)[ROWS]), range(30)):
        gap = abs(float(here.reward[lane, i] - here.reward[lane, j]))
        assert bool(differ[lane, row, j]) == (gap > (1.0 if lane == 1 else 0.5))


def test_arrival_is_the_rank_of_birth_and_sorted_experiences_are_the_same_ones() -> None:
    here = experiences(30, 2, False, True, "cpu")
    for lane in range(3):
        birth = here.birth[lane].tolist()
        assert here.arrival[lane].tolist() == [sum(other < mine for other in birth) for mine in birth]
    order = here.birth.argsort(-1, descending=True)
    there = here.sorted(order)
    assert there.arrival.tolist() == [list(range(29, -1, -1))] * 3
    for name in ("reward", "phase", "unevaluated", "state", "action", "context"):
        for lane, place in product(range(3), range(30)):
            one, other = getattr(there, name)[lane, place], getattr(here, name)[lane, order[lane, place]]
            assert torch.equal(one, other), name
    assert there.discrete == here.discrete
