"""Priorities: how often an experience is drawn, what newcomers get, and which weight corrects for it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from tests.peers.native import Drawn, Subject
from tests.peers.subjects import every_prioritized

LEAST_P = 1e-4
COUNT = 12


def reported(kind: Any, errors: NDArray[Any]) -> Subject:
    """A subject whose step k has the error of number k."""
    subject: Subject = kind(32)
    for number in range(len(errors)):
        subject.add(number)
    drawn = subject.draw(400)
    assert len(set(drawn.reward)) == len(errors)
    subject.report(drawn, errors[drawn.reward.astype(int)])
    return subject


def exponents(subject: Subject) -> tuple[float, float]:
    """Exponent of the priorities and of the importance weights."""
    params = subject.memory.params
    names = ("nu", "is_exponent") if hasattr(params, "nu") else ("alpha", "beta")
    return tuple(float(getattr(params, name)) for name in names)  # type: ignore[return-value]


def many(subject: Subject) -> NDArray[Any]:
    """How often each step is drawn in many batches."""
    draws: list[Drawn] = [subject.draw(200) for _ in range(40)]
    return np.bincount(np.concatenate([drawn.reward for drawn in draws]).astype(int), minlength=COUNT)


@every_prioritized
def test_frequencies_are_proportional_to_the_priorities(kind: Any) -> None:
    errors = np.linspace(0.1, 5, COUNT)
    subject = reported(kind, errors)
    wanted = (errors + 1e-6) ** exponents(subject)[0]
    seen = many(subject)
    assert stats.chisquare(seen, wanted / wanted.sum() * seen.sum()).pvalue > LEAST_P


@every_prioritized
def test_the_sign_of_an_error_does_not_matter(kind: Any) -> None:
    errors = np.linspace(0.1, 5, COUNT) * np.where(np.arange(COUNT) % 2, 1, -1)
    one, two = reported(kind, errors), reported(kind, abs(errors))
    np.testing.assert_array_equal(one.draw(100).index, two.draw(100).index)


@every_prioritized
def test_an_experience_without_error_can_still_be_drawn(kind: Any) -> None:
    subject = reported(kind, np.zeros(COUNT))
    assert (many(subject) > 0).all()


@every_prioritized
def test_importance_weights_are_the_inverse_frequencies_to_a_power_and_at_most_one(kind: Any) -> None:
    errors = np.linspace(0.1, 5, COUNT)
    subject = reported(kind, errors)
    priority, correction = exponents(subject)
    drawn = subject.draw(200)
    share = (errors + 1e-6) ** priority
    wanted = (COUNT * share / share.sum())[drawn.reward.astype(int)] ** -correction
    np.testing.assert_allclose(drawn.weight, wanted / wanted.max(), rtol=1e-4)
    assert drawn.weight.max() <= 1


@every_prioritized
def test_newcomers_are_drawn_as_often_as_the_largest_error_so_far(kind: Any) -> None:
    errors = np.full(COUNT - 1, 1.0)
    errors[3] = 50.0
    subject = reported(kind, errors)
    subject.add(COUNT - 1)
    seen = many(subject)
    assert stats.binomtest(int(seen[COUNT - 1]), int(seen[3] + seen[COUNT - 1])).pvalue > LEAST_P
    assert seen[COUNT - 1] > 3 * seen[0]


@every_prioritized
def test_equal_priorities_are_uniform(kind: Any) -> None:
    subject = reported(kind, np.full(COUNT, 2.0))
    seen = many(subject)
    assert stats.chisquare(seen).pvalue > LEAST_P
    np.testing.assert_allclose(subject.draw(50).weight, 1, rtol=1e-6)
