"""With the hooks, Tianshou's gradients equal those of explicit losses."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
import torch
from tianshou.utils.torch_utils import policy_within_training_step
from torch import Tensor
from torch.distributions import Normal

from crystalrl import CrystalParams
from crystalrl.integrations.tianshou import CrystalReplayBuffer
from crystalrl.integrations.tianshou.adapters import adapter_for
from tests.experience import bhattacharyya
from tests.integrations.gradients import difference, gradients, varied
from tests.integrations.tianshou_models import ANCHORS, GAMMA, NO_ANCHORS, algorithm, trained


def one_update(made: Any, buffer: CrystalReplayBuffer, name: str) -> tuple[dict[str, Any], Any, Any]:
    """Gradients by network, copies of the algorithm before each optimiser's step, and the drawn batch."""
    found: dict[str, Any] = {}
    copies: dict[str, Any] = {}
    networks = {"q": made.policy.model} if name == "DQN" else {}
    if name == "SAC":
        networks = {"critic": made.critic, "critic2": made.critic2, "actor": made.policy.actor}
    optims = {"q": made.optim} if name == "DQN" else {}
    if name == "SAC":
        optims = {"critic": made.critic_optim, "critic2": made.critic2_optim, "actor": made.policy_optim}
    before = deepcopy(made)
    for key, optim in optims.items():

        def note(*_: Any, key: str = key) -> None:
            found[key] = gradients(networks[key])
            copies[key] = deepcopy(made)

        optim._optim.register_step_pre_hook(note)
    reported: list[Tensor] = []
    update = buffer.memory.update
    buffer.memory.update = lambda index, error: reported.append(error)  # type: ignore[method-assign]
    torch.manual_seed(3)
    with policy_within_training_step(made.policy):
        made.update(buffer=buffer, sample_size=32)
    buffer.memory.update = update  # type: ignore[method-assign]
    return found, (before, copies), (buffer.adapter.batch, buffer.adapter.samples, reported[0])


@pytest.mark.parametrize("params", [NO_ANCHORS, ANCHORS], ids=["weights", "anchors"])
def test_gradients_of_dqn_are_those_of_an_explicit_loss(params: CrystalParams) -> None:
    made, buffer = trained("DQN", params)
    made.model_old.load_state_dict({k: v + 0.01 for k, v in made.model_old.state_dict().items()})
    found, (twin, _), (batch, samples, reported) = one_update(made, buffer, "DQN")
    assert varied(batch.weight)
    obs, after = torch.as_tensor(samples.obs), torch.as_tensor(samples.obs_next)
    action, reward = torch.as_tensor(samples.act), torch.as_tensor(samples.rew).float()
    ongoing = 1 - torch.as_tensor(samples.terminated).float()
    twin.policy.model.zero_grad()
    with torch.no_grad():
        best = twin.policy.model(after)[0].argmax(1)
        target = reward + GAMMA * ongoing * twin.model_old(after)[0].gather(1, best[:, None])[:, 0]
    q = twin.policy.model(obs)[0]
    error = target - q.gather(1, action[:, None])[:, 0]
    loss = (batch.weight * error**2).mean()
    if params is ANCHORS:
        anchor = batch.anchor["advantage"]
        assert float((anchor.coefficient > 0).float().mean()) > 0.3
        loss = loss + (anchor.coefficient * ((q - q.mean(1, keepdim=True) - anchor.target) ** 2).sum(1)).mean()
    loss.backward()
    assert difference(found["q"], gradients(twin.policy.model)) <= 1e-6
    torch.testing.assert_close(reported, error.abs().detach(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("params", [NO_ANCHORS, ANCHORS], ids=["weights", "anchors"])
def test_gradients_of_sac_are_those_of_explicit_losses(params: CrystalParams) -> None:
    made, buffer = trained("SAC", params)
    found, (twin, copies), (batch, samples, reported) = one_update(made, buffer, "SAC")
    obs, after = torch.as_tensor(samples.obs), torch.as_tensor(samples.obs_next)
    action, reward = torch.as_tensor(samples.act), torch.as_tensor(samples.rew).float()
    ongoing = 1 - torch.as_tensor(samples.terminated).float()
    torch.manual_seed(3)

    def act(given: Any, states: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        (mean, deviation), _ = given.policy.actor(states)
        law = Normal(mean, deviation)
        raw = law.rsample()
        log_prob = law.log_prob(raw).sum(-1) - torch.log(1 - torch.tanh(raw) ** 2 + 1.1920929e-07).sum(-1)
        return torch.tanh(raw), log_prob, mean, deviation

    with torch.no_grad():
        following, log_prob, *_ = act(twin, after)
        values = torch.stack([old(after, following).flatten() for old in (twin.critic_old, twin.critic2_old)])
        target = reward + GAMMA * ongoing * (values.amin(0) - 0.2 * log_prob)
    errors = []
    for key in ("critic", "critic2"):
        network = getattr(twin, key)
        network.zero_grad()
        q = network(obs, action).flatten()
        errors.append((q - target).abs().detach())
        (batch.weight * (q - target) ** 2).mean().backward()
        assert difference(found[key], gradients(network)) <= 1e-6, key
    torch.testing.assert_close(reported, torch.stack(errors).mean(0), rtol=1e-4, atol=1e-5)
    between = copies["actor"]
    between.policy.actor.zero_grad()
    new, log_prob, mean, deviation = act(between, obs)
    value = torch.stack([critic(obs, new).flatten() for critic in (between.critic, between.critic2)]).amin(0)
    loss = (0.2 * log_prob - value).mean()
    if params is ANCHORS:
        anchor = batch.anchor["policy"]
        assert float((anchor.coefficient > 0).float().mean()) > 0.3
        old_mean, old_log = anchor.target.chunk(2, 1)
        apart = bhattacharyya(Normal(old_mean, old_log.exp()), Normal(mean, deviation)).sum(1)
        loss = loss + (anchor.coefficient * apart).mean()
    loss.backward()
    assert difference(found["actor"], gradients(between.policy.actor)) <= 1e-6


@pytest.mark.parametrize("name", ["DQN", "SAC"])
def test_evaluation_gives_the_algorithm_s_own_td_errors_and_changes_no_random_numbers(name: str) -> None:
    made, buffer = trained(name)
    samples, slots = buffer.sample(32)
    state = torch.get_rng_state()
    with policy_within_training_step(made.policy):
        found = buffer._evaluate(buffer.adapter.batch)
        assert torch.equal(torch.get_rng_state(), state)
        with torch.no_grad():
            samples = made._preprocess_batch(samples, buffer, slots)
    returns = torch.as_tensor(samples.returns).flatten()
    with torch.no_grad():
        outputs = buffer.adapter.outputs(samples)
    if name == "DQN":
        error = (returns - outputs["q"].gather(1, torch.as_tensor(samples.act)[:, None])[:, 0]).abs()
    else:
        error = (returns[:, None] - outputs["q"]).abs().mean(1)
        preferred = outputs["policy"].chunk(2, 1)[0].tanh()
        with torch.no_grad():
            best = torch.stack([critic(samples.obs, preferred).flatten() for critic in (made.critic, made.critic2)], 1)
        torch.testing.assert_close(found.stake, (best - outputs["q"]).mean(1))
    torch.testing.assert_close(found.td_error, error)
    for key, output in outputs.items():
        torch.testing.assert_close(found.output[key], output)


def test_algorithms_that_would_ignore_the_weights_and_unknown_ones_are_refused() -> None:
    with pytest.raises(ValueError, match="huber_loss_delta: wanted None"):
        adapter_for(algorithm("DQN", huber_loss_delta=1.0))
    with pytest.raises(TypeError, match="wanted one of DQN, SAC or a subclass, got Linear"):
        adapter_for(torch.nn.Linear(1, 1))


@pytest.mark.parametrize("name", ["DQN", "SAC"])
def test_a_copied_algorithm_has_neither_working_hooks_nor_the_memory(name: str) -> None:
    made, buffer = trained(name, steps=20)
    copy = deepcopy(made)
    (hook,) = (copy.policy.model if name == "DQN" else copy.policy.actor)._forward_hooks.values()
    assert hook.__self__.batch is None
    assert hook.__self__.algorithm is None
    assert buffer.adapter.batch is not None
