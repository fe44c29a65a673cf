"""PackNet: old outputs stay the same bit for bit, and every task gets an equal share of the weights."""

import pytest
import torch

from crystalrl.methods.packnet import PackNetParams, packed
from tests.methods.runs import ALL_AGENTS, practise, scores, trainer


def outputs_of(made, position: int, obs: torch.Tensor, context: torch.Tensor) -> torch.Tensor:
    with made.method.view(made.agent, position):
        return made.agent.network(made.agent.theta, obs, context).detach().clone()


@pytest.mark.parametrize("heads", [True, False], ids=["heads", "one head"])
@pytest.mark.parametrize("agent", ALL_AGENTS)
def test_old_outputs_are_bit_identical_after_later_tasks(agent: str, heads: bool) -> None:
    settings = {"width": 12, "depth": 2, "multi_head": heads}
    made = trainer("packnet", agent, agent_params=settings)
    obs = torch.randn(2, 50, *made.suite.obs, generator=torch.Generator().manual_seed(0))
    context = torch.zeros(2, 50, dtype=torch.int32)
    practise(made, 0)
    outputs, actions = outputs_of(made, 0, obs, context), made.method.viewing(made.agent, obs, context)
    for task in (1, 2):
        practise(made, task)
        assert torch.equal(outputs_of(made, 0, obs, context), outputs)
        assert torch.equal(made.method.viewing(made.agent, obs, context), actions)
    assert not torch.equal(made.agent.network(made.agent.theta, obs, context), outputs)


def test_every_task_owns_an_equal_share_of_every_layer() -> None:
    made = trainer("packnet")
    for task in range(3):
        practise(made, task)
    network = made.agent.network
    for index in packed(network):
        owner = network.split(made.method.owner["q"])[index][0]
        shares = [float((owner == task).float().mean()) for task in range(3)]
        assert max(shares) - min(shares) < 0.03
    assert made.method.position.tolist() == [[0, 1, 2]] * 2


def test_the_largest_weights_are_kept_and_the_others_are_zero_until_trained() -> None:
    made = trainer("packnet", method_params={"retrain": 0.0})
    made.begin(0)
    for _ in range(10):
        made.collect()
        made.learn()
    before = made.agent.theta.detach().clone()
    made.end(0)
    network, owner = made.agent.network, made.method.owner["q"]
    for index in packed(network):
        old, new, own = (network.split(each)[index][0].flatten(1) for each in (before, made.agent.theta, owner))
        for lane in range(2):
            kept, free = old[lane][own[lane] == 0].abs(), old[lane][own[lane] == 1].abs()
            assert kept.min() >= free.max()
            assert not new[lane][own[lane] == 1].any()


def test_the_kept_weights_are_retrained_for_a_share_of_the_updates() -> None:
    made = trainer("packnet", method_params={"retrain": 0.5})
    practise(made, 0, steps=24)  # 20 updates, then 10
    assert int(made.method.updates) == 0
    left, right = (trainer("packnet", method_params={"retrain": share}) for share in (0.0, 0.5))
    for each in (left, right):
        practise(each, 0)
    kept = left.method.owner["q"] == 0
    assert (left.agent.theta != right.agent.theta)[kept].any()


def test_bad_settings_are_refused() -> None:
    with pytest.raises(ValueError, match="retrain: wanted a number ≥ 0, got -1"):
        PackNetParams(retrain=-1)


@pytest.mark.slow
def test_it_forgets_nothing() -> None:
    fields = {"suite": "nav-3", "seeds": (0, 1, 2, 3), "steps": 4500, "capacity": 2000, "batch": 64}
    R = scores(method="packnet", agent_params={"width": 128, "multi_head": True}, **fields)
    assert torch.equal(R[:, 1, 0], R[:, 3, 0])
    assert torch.equal(R[:, 2, 1], R[:, 3, 1])
    assert R[:, 3].mean() > 0.6
