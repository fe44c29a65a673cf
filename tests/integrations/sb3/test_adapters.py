"""An adapter evaluates a model as its algorithm does."""

from __future__ import annotations

import pytest
import torch

from tests.integrations.twins import ALGORITHMS, TWINS, temperature, trained


@pytest.mark.parametrize("name", ALGORITHMS)
def test_evaluation_gives_the_algorithm_s_own_td_errors_and_values(name: str) -> None:
    model = trained(name, **({"target_policy_noise": 0.0} if name == "TD3" else {}))
    buffer = model.replay_buffer
    batch = buffer.memory.sample(64)
    samples = buffer.samples(batch)
    with torch.no_grad():
        if name in ("SAC", "TQC"):  # the twin draws actions for the states first; evaluation only for the next states
            state = torch.get_rng_state()
            model.actor.action_log_prob(samples.observations)
            found = buffer.evaluate(batch)
            torch.set_rng_state(state)
        else:
            found = buffer.evaluate(batch)
        _, error, values = TWINS[name](model, model.policy, samples, torch.ones(64), temperature(model))
    torch.testing.assert_close(found.td_error.abs(), error, rtol=1e-4, atol=1e-4)
    if name in ("DQN", "QRDQN"):
        advantage = values - values.mean(1, keepdim=True)
        torch.testing.assert_close(found.output, {"advantage": advantage}, rtol=1e-5, atol=1e-5)
    else:
        policy = buffer.hooks.adapter.policy(samples.observations)
        torch.testing.assert_close(found.output, {"policy": policy.detach()}, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["SAC", "TD3", "TQC"])
def test_at_stake_is_the_value_of_the_preferred_action_above_that_of_the_stored_one(name: str) -> None:
    buffer = (model := trained(name)).replay_buffer
    samples = buffer.samples(batch := buffer.memory.sample(64))
    with torch.no_grad():
        preferred = model.actor(samples.observations, **({} if name == "TD3" else {"deterministic": True}))
        values = [model.critic(samples.observations, action) for action in (preferred, samples.actions)]
        best, own = ((v.mean(2) if name == "TQC" else torch.cat(v, 1)).mean(1) for v in values)
        torch.testing.assert_close(buffer.evaluate(batch).stake, best - own, rtol=1e-4, atol=1e-5)


def test_evaluation_does_not_change_the_random_numbers_of_the_run() -> None:
    model = trained("SAC")
    state = torch.get_rng_state()
    model.replay_buffer.evaluate(model.replay_buffer.memory.sample(64))
    assert torch.equal(torch.get_rng_state(), state)
