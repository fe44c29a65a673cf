"""Tianshou: gradients equal losses written out, what goes in comes out, buffers go on, mistakes are refused."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tianshou.data import Batch, VectorReplayBuffer
from tianshou.utils.torch_utils import policy_within_training_step
from torch import Tensor
from torch.distributions import Normal, kl_divergence

from crystalrl import CheckpointError, CrystalParams
from crystalrl.integrations.tianshou import CrystalReplayBuffer
from tests.integrations.test_gradients import difference, varied
from tests.integrations.tianshou_models import (
    ANCHORS,
    ENVS,
    GAMMA,
    NO_ANCHORS,
    A,
    D,
    algorithm,
    make,
    step,
    train,
    trained,
)


def gradients(module: Any) -> list[Tensor]:
    return [p.grad.clone() for p in module.parameters() if p.grad is not None]


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
    told: list[Tensor] = []
    update = buffer.memory.update
    buffer.memory.update = lambda index, error: told.append(error)  # type: ignore[method-assign]
    torch.manual_seed(3)
    with policy_within_training_step(made.policy):
        made.update(buffer=buffer, sample_size=32)
    buffer.memory.update = update  # type: ignore[method-assign]
    return found, (before, copies), (buffer.learner.batch, buffer.learner.samples, told[0])


@pytest.mark.parametrize("params", [NO_ANCHORS, ANCHORS], ids=["weights", "anchors"])
def test_gradients_of_dqn_are_those_of_a_loss_written_out(params: CrystalParams) -> None:
    made, buffer = trained("DQN", params)
    made.model_old.load_state_dict({k: v + 0.01 for k, v in made.model_old.state_dict().items()})
    found, (twin, _), (batch, samples, told) = one_update(made, buffer, "DQN")
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
        anchor = batch.anchor["q"]
        assert float((anchor.coefficient > 0).float().mean()) > 0.3
        loss = loss + (anchor.coefficient * ((q - anchor.target) ** 2).sum(1)).mean()
    loss.backward()
    assert difference(found["q"], gradients(twin.policy.model)) <= 1e-6
    torch.testing.assert_close(told, error.abs().detach(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("params", [NO_ANCHORS, ANCHORS], ids=["weights", "anchors"])
def test_gradients_of_sac_are_those_of_losses_written_out(params: CrystalParams) -> None:
    made, buffer = trained("SAC", params)
    found, (twin, copies), (batch, samples, told) = one_update(made, buffer, "SAC")
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
    for k, key in enumerate(("critic", "critic2")):
        network = getattr(twin, key)
        network.zero_grad()
        q = network(obs, action).flatten()
        errors.append((q - target).abs().detach())
        loss = (batch.weight * (q - target) ** 2).mean()
        if params is ANCHORS:
            anchor = batch.anchor["q"]
            loss = loss + (anchor.coefficient * (q - anchor.target[:, k]) ** 2).mean()
        loss.backward()
        assert difference(found[key], gradients(network)) <= 1e-6, key
    torch.testing.assert_close(told, torch.stack(errors).mean(0), rtol=1e-4, atol=1e-5)
    amid = copies["actor"]
    amid.policy.actor.zero_grad()
    new, log_prob, mean, deviation = act(amid, obs)
    value = torch.stack([critic(obs, new).flatten() for critic in (amid.critic, amid.critic2)]).amin(0)
    loss = (0.2 * log_prob - value).mean()
    if params is ANCHORS:
        anchor = batch.anchor["policy"]
        old_mean, old_log = anchor.target.chunk(2, 1)
        apart = kl_divergence(Normal(old_mean, old_log.exp()), Normal(mean, deviation)).sum(1)
        loss = loss + (anchor.coefficient * apart).mean()
    loss.backward()
    assert difference(found["actor"], gradients(amid.policy.actor)) <= 1e-6


@pytest.mark.parametrize("name", ["DQN", "SAC"])
def test_a_consolidation_is_told_the_algorithm_s_own_td_errors(name: str) -> None:
    made, buffer = trained(name)
    samples, slots = buffer.sample(32)
    state = torch.get_rng_state()
    with policy_within_training_step(made.policy):
        told = buffer._evaluate(buffer.learner.batch)
        assert torch.equal(torch.get_rng_state(), state)
        with torch.no_grad():
            samples = made._preprocess_batch(samples, buffer, slots)
    returns = torch.as_tensor(samples.returns).flatten()
    with torch.no_grad():
        outputs = buffer.learner.outputs(samples)
    if name == "DQN":
        error = (returns - outputs["q"].gather(1, torch.as_tensor(samples.act)[:, None])[:, 0]).abs()
    else:
        error = (returns[:, None] - outputs["q"]).abs().mean(1)
    torch.testing.assert_close(told.td_error, error)
    for key, output in outputs.items():
        torch.testing.assert_close(told.output[key], output)


def test_every_sample_is_what_was_added_and_statistics_are_those_of_the_episodes() -> None:
    _, buffer = make("DQN", slots=60)
    rng, known, sums = np.random.default_rng(0), {}, np.zeros(ENVS)
    lengths = np.zeros(ENVS, int)
    for _ in range(40):
        given = step("DQN", rng)
        slots, returns, lens, first = buffer.add(given)
        done = given.terminated | given.truncated
        sums, lengths = sums + given.rew, lengths + 1
        np.testing.assert_allclose(returns, np.where(done, sums, 0))
        np.testing.assert_array_equal(lens, np.where(done, lengths, 0))
        for k in np.flatnonzero(done):
            assert len(buffer.get_buffer_indices(int(first[k]), int(slots[k]) + 1)) == lengths[k]
        sums, lengths = np.where(done, 0, sums), np.where(done, 0, lengths)
        known |= {
            tuple(given.obs[k]): (given.act[k], given.rew[k], given.terminated[k], tuple(given.obs_next[k]))
            for k in range(ENVS)
        }
    samples, slots = buffer.sample(50)
    for k in range(50):
        wanted = known[tuple(samples.obs[k])]
        assert (samples.act[k], samples.rew[k], samples.terminated[k], tuple(samples.obs_next[k])) == wanted
    assert len(buffer) == len(buffer.sample_indices(0)) == len(buffer[:].rew)
    assert samples.weight.shape == (50,)


def several_steps(made: Any, stream: list[Batch], here: set[tuple[float, ...]]) -> dict[tuple[float, ...], float]:
    """Returns over up to three steps by first observation, step after step, while the next step is `here`."""
    found = {}
    for k, first in enumerate(stream):
        for env in range(ENVS):
            total = 0.0
            for n, later in enumerate(stream[k : k + 3]):
                if n and tuple(later.obs[env]) not in here:
                    break
                total, last = total + GAMMA**n * float(later.rew[env]), (n, later)
                if later.terminated[env] or later.truncated[env]:
                    break
            n, later = last
            after = torch.as_tensor(later.obs_next[env][None])
            with torch.no_grad():
                best = int(made.policy.model(after)[0].argmax())
                value = float(made.model_old(after)[0][0, best]) * (not later.terminated[env])
            found[tuple(first.obs[env])] = total + GAMMA ** (n + 1) * value
    return found


@pytest.mark.parametrize("slots", [4000, 120], ids=["all kept", "some overwritten"])
def test_returns_over_several_steps_follow_each_episode_as_far_as_it_is_kept(slots: int) -> None:
    made, buffer = make("DQN", slots=slots, n_step_return_horizon=3)
    rng = np.random.default_rng(0)
    stream = [step("DQN", rng) for _ in range(100)]
    train(made, buffer, stream)
    drawn = buffer.sample_indices(0)
    samples = made._preprocess_batch(buffer[drawn], buffer, drawn)
    here = {tuple(row) for row in buffer._meta.obs[: buffer.memory.ledger.used].tolist()}
    wanted = several_steps(made, stream, here)
    for obs, found in zip(samples.obs.tolist(), samples.returns.flatten().tolist(), strict=True):
        assert found == pytest.approx(wanted[tuple(obs)], rel=1e-4, abs=1e-5)
    assert (len(here) == 4 * len(stream)) == (slots == 4000)
    steps = np.arange(slots)
    linked = buffer.next(steps) != steps
    assert (buffer.prev(buffer.next(steps))[linked] == steps[linked]).all()
    if slots == 4000:  # then it is what Tianshou's own buffer gives
        own = VectorReplayBuffer(slots, ENVS)
        for given in stream:
            own.add(given, buffer_ids=np.arange(ENVS))
        every = own.sample_indices(0)
        theirs = made._preprocess_batch(own[every], own, every)
        known = dict(zip(map(tuple, theirs.obs.tolist()), theirs.returns.flatten().tolist(), strict=True))
        ours = [known[tuple(obs)] for obs in samples.obs.tolist()]
        np.testing.assert_allclose(samples.returns.flatten().numpy(), ours, rtol=1e-5)


PARTS = {"a": slice(0, 1), "b": slice(1, D)}


def as_dict(given: Batch, masked: bool) -> Batch:
    """The same step with its observations in parts, or beside a mask that allows every action."""
    whole = given.to_dict()
    for name in ("obs", "obs_next"):
        parts: dict[str, Any] = {part: whole[name][:, where] for part, where in PARTS.items()}
        whole[name] = {"obs": whole[name], "mask": np.ones((ENVS, A), bool)} if masked else parts
    return Batch(whole)


@pytest.mark.parametrize(("name", "masked"), [("DQN", False), ("DQN", True), ("SAC", False)])
def test_dict_observations_teach_what_the_same_numbers_in_one_array_teach(name: str, masked: bool) -> None:
    rng = np.random.default_rng(0)
    stream = [step(name, rng) for _ in range(60)]
    params = replace(ANCHORS, w2=0.0, w3=0.0) if masked else ANCHORS  # states are compared with their masks
    one, two = make(name, params), make(name, params)
    train(*one, stream)
    train(*two, [as_dict(given, masked) for given in stream])
    for theirs, ours in zip(one[0].policy.parameters(), two[0].policy.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(two[1].memory.ledger.c, one[1].memory.ledger.c, rtol=1e-4, atol=1e-5)
    assert float(one[1].memory.ledger.c.max()) > 0.5
    whole, part = one[1].sample(16)[0], two[1].sample(16)[0]
    if masked:
        np.testing.assert_array_equal(part.obs.obs, whole.obs)
        np.testing.assert_array_equal(part.obs_next.mask, True)
    else:
        np.testing.assert_array_equal(np.concatenate([part.obs.a, part.obs.b], 1), whole.obs)


def test_a_file_for_another_buffer_is_refused(tmp_path: Path) -> None:
    _, buffer = trained("SAC", steps=20)
    buffer.save(tmp_path / "memory.safetensors")
    with pytest.raises(CheckpointError, match="wanted 100 slots"):
        make("SAC", slots=100)[1].load(tmp_path / "memory.safetensors")
    with pytest.raises(CheckpointError, match="wanted params"):
        make("SAC", CrystalParams.anchored(kappa=0.2))[1].load(tmp_path / "memory.safetensors")


def test_mistakes_are_refused_with_a_reason() -> None:
    buffer = CrystalReplayBuffer(100, ENVS)
    rng = np.random.default_rng(0)
    with pytest.raises(RuntimeError, match=r"call buffer.attach\(algorithm\)"):
        buffer.add(step("DQN", rng))
    with pytest.raises(ValueError, match="huber_loss_delta: wanted None"):
        buffer.attach(algorithm("DQN", huber_loss_delta=1.0))
    with pytest.raises(TypeError, match="wanted one of DQN, SAC or a subclass, got Linear"):
        buffer.attach(torch.nn.Linear(1, 1))
    _made, buffer = make("DQN")
    given = step("DQN", rng)
    given.rew[1] = np.nan
    with pytest.raises(ValueError, match="rew: wanted finite numbers"):
        buffer.add(given)
    given = step("DQN", rng)
    given.obs = Batch(a=Batch(b=given.obs))
    with pytest.raises(TypeError, match=r"obs.a: wanted an array of numbers, got Batch: dicts within dicts"):
        buffer.add(given)
    buffer.add(step("DQN", rng))
    _, slots = buffer.sample(4)
    with pytest.raises(RuntimeError, match="trained on other arrays than sample"):
        buffer.update_weight(slots, np.zeros(4))
    with pytest.raises(NotImplementedError, match="wanted `save`"):
        buffer.save_hdf5("nowhere")
    assert A == 2
