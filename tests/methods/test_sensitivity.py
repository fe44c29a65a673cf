"""Mean gradients of every sample against one backward pass per sample."""

import pytest
import torch

from crystalrl.agents.networks import LaneNetwork
from crystalrl.methods.sensitivity import mean_gradients
from crystalrl.random import Streams

NETWORKS = {
    "plain": lambda: LaneNetwork((3,), [6, 5], 2),
    "dueling": lambda: LaneNetwork((3,), [6, 5], 2, dueling=True),
    "normalised": lambda: LaneNetwork((3,), [6, 5], 2, layer_norm=True),
    "noisy": lambda: LaneNetwork((3,), [6, 5], 2, noisy=True),
    "frames": lambda: LaneNetwork((11, 10, 2), [5], 2),
}


@pytest.mark.parametrize("size", [torch.square, torch.abs], ids=["squared", "absolute"])
@pytest.mark.parametrize("make", NETWORKS.values(), ids=NETWORKS)
def test_mean_gradients_are_those_of_a_naive_loop_over_samples(make, size) -> None:
    network = make()
    theta = network.initial(Streams([1, 2])).requires_grad_()
    obs = torch.randn(2, 7, *network.inputs, generator=torch.Generator().manual_seed(0))
    naive = torch.zeros_like(theta)
    for sample in range(7):
        value = network(theta, obs[:, sample : sample + 1]).square().sum()
        naive += size(torch.autograd.grad(value, theta)[0]) / 7
    found = mean_gradients(network, theta, (obs, None), torch.square, size)
    torch.testing.assert_close(found, naive, rtol=1e-4, atol=1e-7)
    assert not found[:, network.used :].any()
