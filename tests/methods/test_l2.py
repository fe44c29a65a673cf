"""L2: the distance from the parameters after the last task, times the number of tasks."""

import torch

from tests.methods.runs import practise, trainer


def test_after_two_tasks_the_penalty_is_twice_the_squared_distance_from_the_newest_parameters() -> None:
    made = trainer("l2", method_params={"strength": 3.0})
    practise(made, 0)
    practise(made, 1)
    theta = made.agent.theta.detach()
    moved = theta + torch.linspace(0, 1, theta.shape[1])
    wanted = 3.0 * 2 * (moved - theta).square().sum(-1)
    torch.testing.assert_close(made.method.penalty("q", moved), wanted)


def test_a_large_strength_holds_the_network_still() -> None:
    free, held = (trainer("l2", method_params={"strength": strength}) for strength in (0.0, 1e5))
    moved = []
    for made in (free, held):
        practise(made, 0)
        before = made.agent.theta.detach().clone()
        practise(made, 1)
        moved.append(float((made.agent.theta.detach() - before).norm()))
    assert moved[1] < 0.5 * moved[0]
