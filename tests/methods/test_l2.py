"""L2: the distance from the parameters after the last task, times the number of tasks."""

import torch

from tests.methods.runs import practise, trainer


def test_after_two_tasks_the_penalty_is_twice_the_squared_distance_from_the_newest_parameters() -> None:
    one = {"width": 12, "depth": 2}
    made = trainer("l2", method_params={"strength": 3.0}, agent_params=one)
    practise(made, 0)
    practise(made, 1)
    theta = made.agent.theta.detach()
    moved = theta + torch.linspace(0, 1, theta.shape[1])
    wanted = 3.0 * 2 * (moved - theta).square().sum(-1)
    torch.testing.assert_close(made.method.penalty("q", moved), wanted)


def test_a_head_of_its_own_is_free_in_every_task() -> None:
    made = trainer("l2", method_params={"strength": 1e5})
    practise(made, 0)
    network, importance = made.agent.network, made.method.importance["q"]
    layers = network.split(importance)
    assert all((tensor == 1).all() for layer in layers[: network.first_head] for tensor in layer)
    assert not any(tensor.any() for tensor in layers[network.first_head])
    assert not made.method.penalty("q", _with_other_heads(made)).any()


def _with_other_heads(made) -> torch.Tensor:
    theta = made.agent.theta.detach().clone()
    for tensor in made.agent.network.split(theta)[made.agent.network.first_head]:
        tensor.add_(1.0)
    return theta


def test_a_large_strength_holds_the_network_still() -> None:
    free, held = (
        trainer("l2", method_params={"strength": strength}, agent_params={"width": 12}) for strength in (0.0, 1e5)
    )
    moved = []
    for made in (free, held):
        practise(made, 0)
        before = made.agent.theta.detach().clone()
        practise(made, 1)
        moved.append(float((made.agent.theta.detach() - before).norm()))
    assert moved[1] < 0.5 * moved[0]
