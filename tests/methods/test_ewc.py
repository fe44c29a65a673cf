"""Elastic weight consolidation: Fisher information against per-sample gradients, the penalty against its definition."""

import itertools

import pytest
import torch

from crystalrl.agents.networks import LaneNetwork
from crystalrl.methods.ewc import EWC, EWCParams, fisher_diagonal
from crystalrl.random import Streams

NETWORKS = {
    "plain": lambda: LaneNetwork((3,), [6, 5], 2),
    "dueling": lambda: LaneNetwork((3,), [6, 5], 2, dueling=True),
    "normalised": lambda: LaneNetwork((3,), [6, 5], 2, layer_norm=True),
    "noisy": lambda: LaneNetwork((3,), [6, 5], 2, noisy=True),
    "frames": lambda: LaneNetwork((11, 10, 2), [5], 2),
}


@pytest.fixture(params=NETWORKS)
def network(request: pytest.FixtureRequest) -> LaneNetwork:
    return NETWORKS[request.param]()


def squared_gradients(network: LaneNetwork, theta: torch.Tensor, obs: torch.Tensor) -> torch.Tensor:
    """Mean over samples of Σ_a (∂Q_a/∂θ)² by one backward pass per sample and action."""
    total = torch.zeros_like(theta)
    for sample, action in itertools.product(range(obs.shape[1]), range(2)):
        value = network(theta, obs[:, sample : sample + 1])[:, 0, action].sum()
        total += torch.autograd.grad(value, theta)[0].square()
    return total / obs.shape[1]


def test_the_fisher_over_all_signs_is_the_mean_squared_gradient_of_every_sample(network: LaneNetwork) -> None:
    theta = network.initial(Streams([1, 2])).requires_grad_()
    obs = torch.randn(2, 7, *network.inputs, generator=torch.Generator().manual_seed(0))
    signs = [torch.tensor(pair).expand(2, 7, 2) for pair in itertools.product((-1.0, 1.0), repeat=2)]
    measured = torch.stack([fisher_diagonal(network, theta, obs, sign) for sign in signs]).mean(0)
    torch.testing.assert_close(measured, squared_gradients(network, theta, obs), rtol=1e-4, atol=1e-7)


def test_padding_has_no_fisher(network: LaneNetwork) -> None:
    theta = network.initial(Streams([1])).requires_grad_()
    obs = torch.ones(1, 4, *network.inputs)
    assert not fisher_diagonal(network, theta, obs, torch.ones(1, 4, 2))[:, network.used :].any()


class Agent:
    def __init__(self) -> None:
        self.network = LaneNetwork((3,), [4], 2)
        self.theta = self.network.initial(Streams([1, 2])).requires_grad_()


class Replay:
    """A memory that always draws the same observations."""

    capacity = 64

    def __init__(self, obs: torch.Tensor) -> None:
        self.obs = obs

    def sample(self, size: int) -> object:
        return type("Drawn", (), {"obs": self.obs[:, :size], "context": None})


def test_two_tasks_penalise_as_the_sum_of_their_own_penalties() -> None:
    agent, strength = Agent(), 7.0
    ewc = EWC(agent, EWCParams(strength=strength), Streams([1, 2]))
    fishers, centres = [], []
    for task in range(2):
        before = ewc.fisher.clone()
        ewc.task_end(agent, Replay(torch.randn(2, 64, 3, generator=torch.Generator().manual_seed(task))), task)
        fishers.append(ewc.fisher - before)
        centres.append(agent.theta.detach().clone())
        with torch.no_grad():
            agent.theta += 0.1 * torch.randn(agent.theta.shape, generator=torch.Generator().manual_seed(9 + task))

    def expected(theta: torch.Tensor) -> torch.Tensor:
        return sum(0.5 * strength * (f * (theta - c) ** 2).sum(-1) for f, c in zip(fishers, centres, strict=True))

    one, two = agent.theta.detach(), agent.theta.detach() + 0.05
    torch.testing.assert_close(ewc.penalty(two) - ewc.penalty(one), expected(two) - expected(one), rtol=1e-4, atol=1e-6)


def test_strength_may_differ_between_lanes_and_zero_switches_it_off() -> None:
    agent = Agent()
    ewc = EWC(agent, EWCParams(strength=(0.0, 3.0)), Streams([1, 2]))
    ewc.task_end(agent, Replay(torch.ones(2, 64, 3)), 0)
    penalty = ewc.penalty(agent.theta + 1)
    assert penalty[0] == 0
    assert penalty[1] > 0


def test_the_fisher_of_a_head_is_that_of_its_own_samples() -> None:
    network = LaneNetwork((3,), [4], 2, heads=3)
    theta = network.initial(Streams([1])).requires_grad_()
    obs = torch.randn(1, 6, 3, generator=torch.Generator().manual_seed(0))
    context = torch.tensor([[0, 0, 2, 2, 2, 0]])
    fisher = fisher_diagonal(network, theta, obs, torch.ones(1, 6, 2), context)
    _, bias = network.split(fisher)[-1]
    torch.testing.assert_close(bias[0, 0], torch.tensor([0.5, 0.5, 0, 0, 0.5, 0.5]))
