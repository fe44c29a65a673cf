"""n-step returns: they add up the rewards of one episode, stop at its end, and bootstrap only where it was cut."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

from tests.peers.integrated import Tianshou
from tests.peers.native import Subject
from tests.peers.subjects import every_n_step

GAMMA = 0.9


class Step(NamedTuple):
    number: int
    ends: bool
    cut: bool


def episodes(count: int = 60) -> list[Step]:
    """Episodes of 1 … 6 steps, of which every other one is cut by a time limit; the last is still running."""
    rng, steps = np.random.default_rng(0), []
    while len(steps) < count:
        length, even = int(rng.integers(1, 7)), len(steps) % 2 == 0
        last = [k == length - 1 for k in range(length)]
        steps += [(over and even, over and not even) for over in last]
    return [Step(k, *each) for k, each in enumerate([*steps, (False, False), (False, False)])]


def naive(steps: list[Step], n: int) -> dict[int, tuple[float, float, int]]:
    """Return, discount and last step of the window that starts at each step; running ones are left out."""
    found = {}
    for k, first in enumerate(steps):
        total, window = 0.0, steps[k : k + n]
        for age, step in enumerate(window):
            total += GAMMA**age * step.number
            over = step.ends or step.cut
            if over or age == n - 1:
                found[first.number] = total, 0.0 if step.ends else GAMMA ** (age + 1), step.number
                break
    return found


def filled(kind: Any, n: int) -> Subject:
    subject: Subject = kind(128, n_step=n, gamma=GAMMA)
    for step in episodes():
        subject.add(*step)
    return subject


@every_n_step
@pytest.mark.parametrize("n", [1, 2, 3, 5])
def test_returns_discounts_and_next_states_are_those_of_the_definition(kind: Any, n: int) -> None:
    subject, wanted = filled(kind, n), naive(episodes(), n)
    drawn = subject.draw(4000)
    assert drawn.discount is not None
    seen = set()
    for row in range(len(drawn.reward)):
        first = int(drawn.obs[row, 0])
        total, discount, last = wanted[first]
        assert drawn.reward[row] == pytest.approx(total, rel=1e-5)
        assert drawn.discount[row] == pytest.approx(discount, abs=1e-6)
        assert drawn.next_obs[row, 0] == last + 1
        seen.add(first)
    assert seen == set(wanted)  # also: no window of the running episode before it has n steps


@every_n_step
def test_a_running_window_is_drawn_once_its_episode_has_ended(kind: Any) -> None:
    subject = kind(64, n_step=3, gamma=GAMMA)
    for number in range(4):
        subject.add(number)
    assert set(subject.draw(200).obs[:, 0]) == {0, 1}
    subject.add(4, ends=True)
    assert set(subject.draw(400).obs[:, 0]) == {0, 1, 2, 3, 4}


@pytest.mark.parametrize("n", [1, 2, 3, 5])
def test_tianshou_s_own_returns_are_right_over_our_buffer(n: int) -> None:
    pytest.importorskip("tianshou")
    import torch

    subject = Tianshou(128)
    for step in episodes():
        subject.add(*step)
    slots = subject.own.sample_indices(0)
    values = [
        subject.algorithm.compute_nstep_return(
            subject.own[slots], subject.own, slots, lambda _, at, one=one: torch.full((len(at), 1), one), GAMMA, n
        ).returns.flatten()
        for one in (0.0, 1.0)
    ]
    wanted = naive(episodes(), n)
    compared = 0
    for number, total, with_value in zip(subject.own[slots].rew, values[0], values[1], strict=True):
        if int(number) in wanted:
            assert float(total) == pytest.approx(wanted[int(number)][0], rel=1e-5)
            assert float(with_value - total) == pytest.approx(wanted[int(number)][1], abs=1e-3)
            compared += 1
    assert compared == len(wanted)
