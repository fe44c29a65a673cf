"""Networks of lanes: convolutions against torch's, heads, normalisation, noise."""

import pytest
import torch
from torch.nn import functional

from crystalrl.agents.networks import LaneNetwork
from crystalrl.random import Streams


def theta(network: LaneNetwork) -> torch.Tensor:
    return network.initial(Streams([1, 2]))


@pytest.mark.parametrize("shape", [(10, 10, 4), (84, 84, 4)], ids=["minatar", "atari"])
def test_frames_go_through_the_convolutions_of_torch(shape: tuple[int, ...]) -> None:
    network = LaneNetwork(shape, [7], 3)
    rows, random = theta(network), torch.Generator().manual_seed(0)
    kind = torch.uint8 if shape[0] == 84 else torch.bool
    frames = torch.randint(256 if kind == torch.uint8 else 2, (2, 5, *shape), generator=random).to(kind)
    layers = network.split(rows)
    for lane in range(2):
        x = frames[lane].float().permute(0, 3, 1, 2) / (255 if kind == torch.uint8 else 1)
        for (_, kernel, stride), (weight, bias) in zip(network.filters, layers, strict=False):
            square = weight[lane].T.reshape(-1, x.shape[1], kernel, kernel)
            x = torch.relu(functional.conv2d(x, square, bias[lane, 0], stride=stride))
        hidden = x.permute(0, 2, 3, 1).flatten(1)
        (w1, b1), (w2, b2) = layers[len(network.filters) :]
        wanted = torch.relu(hidden @ w1[lane] + b1[lane]) @ w2[lane] + b2[lane]
        torch.testing.assert_close(network(rows, frames)[lane], wanted, rtol=1e-4, atol=1e-5)


def test_the_context_selects_the_head_and_only_that_head_learns() -> None:
    network = LaneNetwork((3,), [5], 2, heads=4, dueling=True)
    rows = theta(network).requires_grad_()
    obs, context = torch.ones(2, 3, 3), torch.tensor([[0, 2, 2], [1, 3, 0]], dtype=torch.int32)
    out = network(rows, obs, context)
    assert out.shape == (2, 3, 2)
    assert torch.equal(out[0, 1], out[0, 2])
    assert not torch.equal(out[0, 0], out[0, 1])
    weight, bias = network.split(torch.autograd.grad(out.sum(), rows)[0])[2]  # V: its gradient is 1 per sample and head
    assert weight.shape[-1] == 4
    counts = torch.tensor([[1.0, 0, 2, 0], [1, 1, 0, 1]])
    torch.testing.assert_close(bias[:, 0], 2 * counts)
    with pytest.raises(ValueError, match="context: wanted one of 4 heads"):
        network(rows, obs)


def test_one_head_of_many_equals_a_network_of_its_own() -> None:
    many, one = LaneNetwork((3,), [5], 2, heads=3), LaneNetwork((3,), [5], 2)
    rows = theta(many)
    (w1, b1), (w2, b2) = many.split(rows)
    own = torch.cat([w1.flatten(1), b1.flatten(1), w2[..., 2:4].flatten(1), b2[..., 2:4].flatten(1)], dim=1)
    own = functional.pad(own, (0, one.size - own.shape[1]))
    obs = torch.randn(2, 6, 3, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(many(rows, obs, torch.ones(2, 6, dtype=torch.int32)), one(own, obs))


def test_normalised_layers_ignore_the_scale_of_their_inputs() -> None:
    network = LaneNetwork((3,), [16, 16], 2, layer_norm=True)
    rows = theta(network)
    for _, bias in network.split(rows)[:1]:
        bias.zero_()
    obs = torch.randn(2, 6, 3, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(network(rows, obs), network(rows, 100 * obs), rtol=1e-3, atol=1e-3)


def test_noisy_layers_are_weights_plus_scale_times_factorised_noise() -> None:
    network = LaneNetwork((3,), [4], 2, noisy=True)
    rows = theta(network)
    obs = torch.randn(2, 6, 3, generator=torch.Generator().manual_seed(0))
    noise = torch.randn(2, network.noise_size, generator=torch.Generator().manual_seed(1))
    shaped = noise.sign() * noise.abs().sqrt()
    layers = network.split(rows)
    for lane in range(2):
        first, second, third, fourth = shaped[lane].split([3, 4, 4, 2])
        x = obs[lane]
        for i, (before, after) in enumerate(((first, second), (third, fourth))):
            weight = layers[i][0][lane] + layers[2 + i][0][lane] * before[:, None] * after[None]
            bias = layers[i][1][lane] + layers[2 + i][1][lane] * after
            x = x @ weight + bias
            x = torch.relu(x) if i == 0 else x
        torch.testing.assert_close(network(rows, obs, noise=noise)[lane], x, rtol=1e-4, atol=1e-5)
    plain = LaneNetwork((3,), [4], 2)
    quiet = functional.pad(rows[:, : plain.used], (0, plain.size - plain.used))
    assert torch.equal(network(rows, obs), plain(quiet, obs))


def test_a_stack_of_frames_is_read_like_the_same_frames_as_channels() -> None:
    first, last = LaneNetwork((4, 20, 20), [16], 3), LaneNetwork((20, 20, 4), [16], 3)
    stack = torch.randint(256, (2, 5, 4, 20, 20), generator=torch.Generator().manual_seed(0)).to(torch.uint8)
    weights = theta(first)
    assert first.layers == last.layers
    assert torch.equal(first(weights, stack), last(weights, stack.permute(0, 1, 3, 4, 2)))
