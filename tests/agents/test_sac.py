"""SAC: gradients against a loop over samples, densities against torch's, temperatures."""

from __future__ import annotations

import pytest
import torch
from torch.distributions import Normal

from crystalrl.agents.exploration import normals
from crystalrl.agents.sac import squashed
from crystalrl.random import Streams
from tests.agents.batches import ACTION, anchors, batch, perceptron, sac, squashed_gaussian, twin_values
from tests.agents.lane_runs import ANCHORED, HEADS, SMALL, Design, assert_a_lane_equals_its_seed_alone
from tests.agents.pendulum import CRYSTAL, UNIFORM, best_later_score
from tests.experience import bhattacharyya

DESIGNS: dict[str, Design] = {
    "sac": {"suite": "pendulum-2", "agent": "sac", "agent_params": {**SMALL, "task_temperature": True}},
    "sac anchored": {"suite": "pendulum-2", "agent": "sac", "agent_params": {"width": 33}, **ANCHORED},
    "sac ewc heads": {"suite": "pendulum-2", "agent": "sac", "method": "ewc", "agent_params": HEADS},
    "sac distill": {"suite": "classic-continuous", "agent": "sac", "method": "distill", "agent_params": SMALL},
}


@pytest.mark.parametrize("design", DESIGNS.values(), ids=DESIGNS)
def test_a_lane_among_three_equals_its_seed_alone_bit_for_bit(design: Design) -> None:
    assert_a_lane_equals_its_seed_alone(design)


def test_gradients_equal_those_of_a_loop_over_samples() -> None:
    agent = sac()
    with torch.no_grad():
        agent.target += 0.1
        agent.log_alpha += torch.tensor([[0.2], [-0.3]])
    drawn = batch(anchor=anchors(agent.anchors))
    twin = Streams([1, 2])
    twin.ticks.copy_(agent.streams.ticks)
    later, now = (normals(twin, drawn.obs, ACTION) for _ in range(2))
    parts = (agent.theta, agent.critics, agent.log_alpha)
    measured = torch.autograd.grad(agent.loss(drawn)[0].sum(), parts)

    total = torch.zeros(())
    for lane in range(2):
        alpha = agent.log_alpha[lane, 0]
        for i in range(6):
            obs, next_obs = drawn.obs[lane, i], drawn.next_obs[lane, i]
            with torch.no_grad():
                mean, log_std = perceptron(agent.network, agent.theta[lane], next_obs).chunk(2)
                law = squashed_gaussian(mean, log_std)
                action = torch.tanh(mean + log_std.exp() * later[lane, i])
                value = twin_values(
                    agent.twins, agent.target, lane, next_obs, action
                ).min() - alpha.exp() * law.log_prob(action)
                target = drawn.reward[lane, i] + 0.9 * value
            q = twin_values(agent.twins, agent.critics, lane, obs, drawn.action[lane, i])
            mean, log_std = perceptron(agent.network, agent.theta[lane], obs).chunk(2)
            raw = mean + log_std.exp() * now[lane, i]
            log_prob = Normal(mean, log_std.exp()).log_prob(raw).sum() - (1 - torch.tanh(raw) ** 2).log().sum()
            value = twin_values(agent.twins, agent.critics.detach(), lane, obs, torch.tanh(raw)).min()
            policy = drawn.anchor["policy"]
            old_mean, old_log_std = policy.target[lane, i].chunk(2)
            pull = bhattacharyya(Normal(old_mean, old_log_std.exp()), Normal(mean, log_std.exp())).sum()
            one = drawn.weight[lane, i] * 0.5 * (target - q).square().sum()
            one = one + alpha.detach().exp() * log_prob - value - alpha * (log_prob.detach() - ACTION)
            one = one + policy.coefficient[lane, i] * pull
            total = total + one / 6
    for got, wanted in zip(measured, torch.autograd.grad(total, parts), strict=True):
        torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-5)


def test_the_policy_loss_sends_the_critics_no_gradient() -> None:
    agent = sac()
    unweighted = batch(weight=torch.zeros(2, 6))
    assert not torch.autograd.grad(agent.loss(unweighted)[0].sum(), agent.critics)[0].any()


def test_densities_of_squashed_actions_are_those_of_torch() -> None:
    policy = torch.randn(2, 50, 2 * ACTION, generator=torch.Generator().manual_seed(3))
    noise = torch.randn(2, 50, ACTION, generator=torch.Generator().manual_seed(4))
    action, log_prob = squashed(policy, noise)
    mean, log_std = policy.chunk(2, -1)
    law = squashed_gaussian(mean.double(), log_std.double())
    exact = law.log_prob(torch.tanh(mean.double() + log_std.double().exp() * noise.double()))
    inside = action.abs().amax(-1) < 0.999
    torch.testing.assert_close(log_prob.double()[inside], exact[inside], rtol=1e-3, atol=1e-3)


def test_the_temperature_of_a_task_follows_its_own_samples() -> None:
    agent = sac(task_temperature=True)
    before = agent.log_alpha.detach().clone()
    agent.update(batch(context=torch.tensor([[0, 0, 0, 2, 2, 2], [1] * 6], dtype=torch.int32)))
    moved = agent.log_alpha.detach() != before
    assert moved.tolist() == [[True, False, True], [False, True, False]]
    with pytest.raises(ValueError, match="task_temperature: wanted tasks whose id is known"):
        agent.update(batch())


def test_the_temperature_rises_where_the_policy_has_too_little_entropy_and_falls_where_it_has_too_much() -> None:
    for entropy, sign in ((5.0, 1), (-50.0, -1)):
        agent = sac(entropy=entropy)
        agent.update(batch())
        assert (agent.log_alpha.detach().sign() == sign).all()


LEARNERS: dict[str, Design] = {"uniform-sac": {"agent": "sac", **UNIFORM}, "crystal-sac": {"agent": "sac", **CRYSTAL}}


@pytest.mark.parametrize("design", LEARNERS.values(), ids=LEARNERS)
@pytest.mark.slow
def test_the_pendulum_is_swung_up_and_held(design: Design) -> None:
    first, best = best_later_score(design)
    assert first < -900
    assert best >= -250
