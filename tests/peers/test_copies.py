"""A pickled or deep-copied buffer goes on like its original and shares nothing with it."""

from __future__ import annotations

import pickle
from copy import deepcopy
from typing import Any

import numpy as np
import pytest

from tests.peers.native import Subject
from tests.peers.subjects import every_subject

WAYS = pytest.mark.parametrize(
    "way", [deepcopy, lambda buffer: pickle.loads(pickle.dumps(buffer))], ids=["copy", "pickle"]
)


def go_on(subject: Subject) -> list[Any]:
    found = []
    for number in range(20, 40):
        subject.add(number, ends=number % 7 == 0)
        drawn = subject.draw(16)
        subject.report(drawn, drawn.reward - 25)
        found += [drawn.obs, drawn.index, drawn.weight]
    return found


@WAYS
@every_subject
def test_a_copy_draws_what_the_original_draws(kind: Any, way: Any) -> None:
    subject = kind(24)
    for number in range(20):
        subject.add(number)
    subject.report(drawn := subject.draw(16), drawn.reward)
    copy = subject.copied(way)
    for ours, theirs in zip(go_on(subject), go_on(copy), strict=True):
        np.testing.assert_array_equal(ours, theirs)


@WAYS
@every_subject
def test_what_happens_to_a_copy_does_not_happen_to_the_original(kind: Any, way: Any) -> None:
    subject, twin = kind(24), kind(24)
    for number in range(20):
        subject.add(number)
        twin.add(number)
    go_on(subject.copied(way))
    for ours, theirs in zip(go_on(subject), go_on(twin), strict=True):
        np.testing.assert_array_equal(ours, theirs)
