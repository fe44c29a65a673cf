"""Quadratic penalties: which parts they protect, and how strongly each lane."""

import pytest
import torch

from crystalrl.methods.quadratic import QuadraticParams
from tests.methods.runs import practise, trainer


def test_strength_may_differ_between_lanes_and_zero_switches_it_off() -> None:
    made = trainer("l2", "sac", method_params={"strength": 1.0, "critics": True})
    made.method.strength["q"][:2] = 0.0  # the twins of the first lane
    practise(made, 0)
    penalty = made.method.penalty("q", made.agent.critics + 1)
    assert (penalty[:2] == 0).all()
    assert (penalty[2:] > 0).all()


def test_nothing_is_penalised_before_the_first_task_has_ended() -> None:
    made = trainer("l2")
    assert not made.method.penalty("q", made.agent.theta + 1).any()
    practise(made, 0)
    assert not made.method.penalty("q", made.agent.theta).any()
    assert made.method.penalty("q", made.agent.theta + 1).all()


def test_without_a_policy_the_q_network_is_protected() -> None:
    assert set(trainer("l2").method.importance) == {"q"}
    assert set(trainer("l2", "td3").method.importance) == {"policy"}
    assert set(trainer("l2", "td3", method_params={"critics": True}).method.importance) == {"policy", "q"}


def test_a_negative_strength_is_refused() -> None:
    with pytest.raises(ValueError, match="strength: wanted numbers ≥ 0, got -1"):
        QuadraticParams(strength=-1.0)


def test_the_penalty_is_that_of_a_naive_sum() -> None:
    made = trainer("mas")
    practise(made, 0)
    theta, method = made.agent.theta.detach() + 0.1, made.method
    naive = [
        1e4 * float((method.importance["q"][lane].double() * (theta[lane] - method.centre["q"][lane]) ** 2).sum())
        for lane in range(2)
    ]
    torch.testing.assert_close(method.penalty("q", theta), torch.tensor(naive), rtol=1e-4, atol=0)
