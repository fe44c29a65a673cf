"""Neural episodic control: reads against a brute-force kernel sum, writes against a naive dictionary."""

from __future__ import annotations

import pytest
import torch

from crystalrl.agents import NEC, NECParams, Spaces
from crystalrl.random import Streams
from tests.agents.batches import batch


def nec(**params: object) -> NEC:
    return NEC(
        Spaces((3,), 2), NECParams(**{"width": 8, "key": 4, "entries": 12, "neighbours": 5, **params}), Streams([1, 2])
    )


def filled(count: int, **params: object) -> NEC:
    """An agent with some random entries for each action."""
    agent, random = nec(**params), torch.Generator().manual_seed(0)
    with torch.no_grad():
        agent.dictionary.keys[:, :, :count] = 0.3 * torch.randn(2, 2, count, 4, generator=random)
        agent.dictionary.values[:, :, :count] = torch.randn(2, 2, count, generator=random)
        agent.dictionary.count.fill_(count)
    return agent


@torch.no_grad()
def brute_force(agent: NEC, obs: torch.Tensor) -> torch.Tensor:
    """Q values by a loop over lanes, samples, actions and entries."""
    h, out = agent.network(agent.theta, obs), torch.zeros(2, obs.shape[1], 2)
    for lane, sample, action in torch.cartesian_prod(torch.arange(2), torch.arange(obs.shape[1]), torch.arange(2)):
        entries = [
            (
                float((h[lane, sample] - agent.dictionary.keys[lane, action, i]).square().sum()),
                float(agent.dictionary.values[lane, action, i]),
            )
            for i in range(int(agent.dictionary.count[lane, action]))
        ]
        near = sorted(entries)[: agent.params.neighbours]
        weights = [1 / (distance + agent.params.delta) for distance, _ in near]
        out[lane, sample, action] = sum(w * v for w, (_, v) in zip(weights, near, strict=True)) / max(
            sum(weights), 1e-30
        )
    return out


@pytest.mark.parametrize("count", [0, 1, 3, 5, 12])
def test_reads_are_the_kernel_sum_over_the_nearest_keys(count: int) -> None:
    agent = filled(count)
    obs = torch.randn(2, 7, 3, generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(agent.q(obs)[0].detach(), brute_force(agent, obs), rtol=1e-4, atol=1e-5)


def test_an_update_moves_network_keys_and_values_towards_the_target() -> None:
    agent, drawn = filled(12, learning_rate=0.01), batch(discrete=True)
    before = {name: tensor.detach().clone() for name, tensor in agent.tensors().items()}
    losses = [agent.update(drawn).loss for _ in range(60)]
    assert (losses[-1] < losses[0]).all()
    for name in ("theta", "dictionary.keys", "dictionary.values"):
        assert not torch.equal(agent.tensors()[name], before[name])


def test_the_target_is_the_return_and_the_best_value_read_at_the_next_state() -> None:
    agent, drawn = filled(12), batch(discrete=True)
    wanted = drawn.reward + drawn.discount * brute_force(agent, drawn.next_obs).amax(-1)
    torch.testing.assert_close(agent.td_target(drawn), wanted, rtol=1e-4, atol=1e-5)


def test_a_new_key_is_appended_and_the_same_key_moves_its_value() -> None:
    agent, drawn = nec(), batch(size=1, discrete=True, action=torch.tensor([[1], [0]]))
    agent.write(drawn, torch.tensor([[True], [True]]))
    assert agent.dictionary.count.tolist() == [[0, 1], [1, 0]]
    first = torch.stack([agent.dictionary.values[0, 1, 0], agent.dictionary.values[1, 0, 0]]).detach().clone()
    torch.testing.assert_close(first, drawn.reward[:, 0])
    target = agent.td_target(drawn)[:, 0]
    agent.write(drawn, torch.tensor([[True], [True]]))
    assert agent.dictionary.count.tolist() == [[0, 1], [1, 0]]
    again = torch.stack([agent.dictionary.values[0, 1, 0], agent.dictionary.values[1, 0, 0]]).detach()
    torch.testing.assert_close(again, first + 0.1 * (target - first))


def test_a_full_dictionary_replaces_the_key_that_was_read_longest_ago() -> None:
    agent = filled(12)
    agent.dictionary.read_at.copy_(torch.arange(12).flip(0).expand(2, 2, -1) + 1)  # the last entry is the oldest
    drawn = batch(size=1, discrete=True)
    h = agent.network(agent.theta, drawn.obs)[:, 0]
    agent.write(drawn, torch.tensor([[True], [False]]))
    taken = int(drawn.action[0, 0])
    assert torch.equal(agent.dictionary.keys[0, taken, 11], h[0])
    assert not (agent.dictionary.keys[1] == h[1]).all(-1).any()
    assert (agent.dictionary.count == 12).all()


def test_reading_marks_the_keys_that_were_used() -> None:
    agent = filled(12)
    agent.update(batch(discrete=True))
    assert 0 < int((agent.dictionary.read_at == 1).sum()) <= agent.dictionary.read_at.numel()


@pytest.mark.parametrize(("name", "value"), [("key", 0), ("delta", 0.0), ("write_rate", 0.0), ("multi_head", True)])
def test_bad_settings_are_refused(name: str, value: object) -> None:
    with pytest.raises(ValueError, match=f"^{name}: wanted"):
        NECParams(**{name: value})
