"""A learner may draw the next batch before it reports the errors of the last one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.peers.subjects import every_prioritized


def stored_weights(subject: Any, index: Any) -> Any:
    return subject.memory.ledger.tree.weight[0].numpy()[index]


@every_prioritized
def test_errors_reach_their_own_batch_though_another_was_drawn_meanwhile(kind: Any) -> None:
    prefetching, waiting = kind(32), kind(32)
    for subject in (prefetching, waiting):
        for number in range(12):
            subject.add(number)
    first, second = prefetching.draw(8), prefetching.draw(8)
    prefetching.report(first, first.reward + 1)
    prefetching.report(second, second.reward + 1)
    one, two = waiting.draw(400), waiting.draw(1)
    waiting.report(one, one.reward + 1)
    waiting.report(two, two.reward + 1)
    known = dict(zip(one.reward, stored_weights(waiting, one.index), strict=True))
    for drawn in (first, second):
        np.testing.assert_allclose(
            stored_weights(prefetching, drawn.index), [known[reward] for reward in drawn.reward], rtol=1e-6
        )


@every_prioritized
def test_errors_may_come_in_the_other_order(kind: Any) -> None:
    subject = kind(32)
    for number in range(12):
        subject.add(number)
    first, second = subject.draw(100), subject.draw(100)
    subject.report(second, np.full(100, 2.0))
    subject.report(first, np.full(100, 7.0))
    assert len(set(stored_weights(subject, first.index))) == 1
    assert float(stored_weights(subject, first.index).max()) > 1.5


@pytest.mark.parametrize("drawn_again", [False, True])
@every_prioritized
def test_an_experience_that_was_rewritten_after_its_draw_takes_no_error_of_its_predecessor(
    kind: Any, drawn_again: bool
) -> None:
    subject = kind(8)
    for number in range(8):
        subject.add(number)
    drawn = subject.draw(200)
    subject.report(drawn, np.ones(200))
    drawn = subject.draw(200)
    for number in range(100, 120):
        subject.add(number)
    if drawn_again:
        subject.draw(200)
    before = stored_weights(subject, np.arange(8)).copy()
    held = subject.memory.ledger.used
    subject.report(drawn, np.full(200, 500.0))
    after = stored_weights(subject, np.arange(8))
    now = dict(zip((d := subject.draw(2000)).index, d.reward, strict=True))
    rewritten = [slot for slot in range(held) if now.get(slot, 0) >= 100]
    assert rewritten
    np.testing.assert_array_equal(before[rewritten], after[rewritten])
