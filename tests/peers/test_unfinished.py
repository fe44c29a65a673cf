"""Episodes that are still running: what a buffer knows of their last step, and that they are not mixed with others."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.peers.integrated import Tianshou
from tests.peers.subjects import every_subject


@every_subject
def test_a_running_episode_can_be_drawn_and_is_not_over(kind: Any) -> None:
    subject = kind(32)
    for number in range(6):
        subject.add(number)
    drawn = subject.draw(200)
    assert set(drawn.reward) == {0, 1, 2, 3, 4, 5}
    if drawn.discount is not None:
        np.testing.assert_allclose(drawn.discount, 0.9, rtol=1e-6)


@every_subject
def test_the_end_of_an_episode_bootstraps_only_if_a_time_limit_cut_it(kind: Any) -> None:
    subject = kind(32)
    subject.add(0)
    subject.add(1, ends=True)
    subject.add(2, cut=True)
    drawn = subject.draw(300)
    np.testing.assert_array_equal(drawn.next_obs[:, 0], drawn.reward + 1)
    if drawn.discount is not None:
        np.testing.assert_allclose(drawn.discount, np.where(drawn.reward == 1, 0, 0.9), rtol=1e-6)


@pytest.mark.parametrize("count", [0, 1, 5, 7, 8, 9, 14])
def test_tianshou_s_unfinished_steps_are_those_of_its_own_buffer(count: int) -> None:
    data = pytest.importorskip("tianshou.data")
    subject, own = Tianshou(32), data.ReplayBuffer(32)
    for number in range(count):
        ended = number % 4 == 3
        subject.add(number, ends=ended)
        obs, after = np.full(2, number, np.float32), np.full(2, number + 1, np.float32)
        flags = {"terminated": np.array(ended), "truncated": np.array(False)}
        rew = np.array(float(number))
        own.add(data.Batch(obs=obs, act=np.array(0), rew=rew, obs_next=after, info={}, **flags))
    ours, theirs = subject.own.unfinished_index(), own.unfinished_index() if count else np.zeros(0, int)
    assert ours.tolist() == theirs.tolist()
    every = np.arange(count)
    if count:
        np.testing.assert_array_equal(subject.own.next(every), own.next(every))
        np.testing.assert_array_equal(subject.own.prev(every), own.prev(every))
