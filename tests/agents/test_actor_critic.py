"""SAC and TD3: gradients against a loop over samples, densities against torch's, delays, temperatures, Pendulum."""

import math
from typing import Any

import pytest
import torch
from torch.distributions import Independent, Normal, TanhTransform, TransformedDistribution, kl_divergence

from crystalrl.agents import SAC, TD3, SACParams, Spaces, TD3Params
from crystalrl.agents.exploration import normals
from crystalrl.agents.losses import gaussian_kl
from crystalrl.agents.sac import squashed
from crystalrl.random import Streams
from crystalrl.study.plan import plan
from crystalrl.study.run import Curve, run
from crystalrl.study.spec import RunSpec
from tests.agents.batches import ACTION, OBS, anchors, batch, perceptron

SPACES = Spaces((OBS,), (ACTION,), tasks=3)


def sac(**params: object) -> SAC:
    return SAC(SPACES, SACParams(width=8, depth=2, **params), Streams([1, 2]))


def td3(**params: object) -> TD3:
    return TD3(SPACES, TD3Params(width=8, depth=2, **params), Streams([1, 2]))


def q_of(agent: SAC | TD3, rows: torch.Tensor, lane: int, obs: torch.Tensor, action: torch.Tensor) -> torch.Tensor:
    """Q₁ and Q₂ of one sample."""
    both = torch.cat([obs, action])
    return torch.stack([perceptron(agent.twins.network, rows[2 * lane + twin], both)[0] for twin in range(2)])


def density(mean: torch.Tensor, log_std: torch.Tensor) -> TransformedDistribution:
    return TransformedDistribution(Independent(Normal(mean, log_std.exp()), 1), [TanhTransform(cache_size=1)])


def test_sac_gradients_equal_those_of_a_loop_over_samples() -> None:
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
            obs, then = drawn.obs[lane, i], drawn.next_obs[lane, i]
            with torch.no_grad():
                mean, log_std = perceptron(agent.network, agent.theta[lane], then).chunk(2)
                law = density(mean, log_std)
                action = torch.tanh(mean + log_std.exp() * later[lane, i])
                value = q_of(agent, agent.target, lane, then, action).min() - alpha.exp() * law.log_prob(action)
                goal = drawn.reward[lane, i] + 0.9 * value
            q = q_of(agent, agent.critics, lane, obs, drawn.action[lane, i])
            mean, log_std = perceptron(agent.network, agent.theta[lane], obs).chunk(2)
            raw = mean + log_std.exp() * now[lane, i]
            log_prob = Normal(mean, log_std.exp()).log_prob(raw).sum() - (1 - torch.tanh(raw) ** 2).log().sum()
            value = q_of(agent, agent.critics.detach(), lane, obs, torch.tanh(raw)).min()
            policy, held = drawn.anchor["policy"], drawn.anchor["q"]
            old_mean, old_log_std = policy.target[lane, i].chunk(2)
            pull = kl_divergence(Normal(old_mean, old_log_std.exp()), Normal(mean, log_std.exp())).sum()
            one = drawn.weight[lane, i] * 0.5 * (goal - q).square().sum()
            one = one + alpha.detach().exp() * log_prob - value - alpha * (log_prob.detach() - ACTION)
            one = one + policy.coefficient[lane, i] * pull
            one = one + held.coefficient[lane, i] * (q - held.target[lane, i]).square().sum()
            total = total + one / 6
    for got, wanted in zip(measured, torch.autograd.grad(total, parts), strict=True):
        torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-5)


def test_td3_gradients_equal_those_of_a_loop_over_samples() -> None:
    agent = td3()
    with torch.no_grad():
        agent.critics_target += 0.1
        agent.theta_target -= 0.1
    drawn = batch(anchor=anchors(agent.anchors))
    twin = Streams([1, 2])
    twin.ticks.copy_(agent.streams.ticks)
    noise = (0.2 * normals(twin, drawn.obs, ACTION)).clamp(-0.5, 0.5)
    critics = torch.autograd.grad(agent.loss(drawn)[0].sum(), agent.critics)[0]
    policy = torch.autograd.grad(agent.policy_loss(drawn).sum(), agent.theta)[0]
    total, uphill = torch.zeros(()), torch.zeros(())
    for lane in range(2):
        for i in range(6):
            obs, then = drawn.obs[lane, i], drawn.next_obs[lane, i]
            with torch.no_grad():
                action = torch.tanh(perceptron(agent.network, agent.theta_target[lane], then)) + noise[lane, i]
                value = q_of(agent, agent.critics_target, lane, then, action.clamp(-1, 1)).min()
                goal = drawn.reward[lane, i] + 0.9 * value
            q, held = q_of(agent, agent.critics, lane, obs, drawn.action[lane, i]), drawn.anchor["q"]
            one = drawn.weight[lane, i] * 0.5 * (goal - q).square().sum()
            total = total + (one + held.coefficient[lane, i] * (q - held.target[lane, i]).square().sum()) / 6
            own, held = torch.tanh(perceptron(agent.network, agent.theta[lane], obs)), drawn.anchor["policy"]
            value = q_of(agent, agent.critics.detach(), lane, obs, own)[0]
            uphill = uphill - value / 6
            uphill = uphill + held.coefficient[lane, i] * (own - held.target[lane, i]).square().sum() / 6
    torch.testing.assert_close(critics, torch.autograd.grad(total, agent.critics)[0], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(policy, torch.autograd.grad(uphill, agent.theta)[0], rtol=1e-4, atol=1e-5)


def test_the_policy_loss_teaches_the_critics_nothing() -> None:
    agent = sac()
    silent = batch(weight=torch.zeros(2, 6))
    assert not torch.autograd.grad(agent.loss(silent)[0].sum(), agent.critics)[0].any()


def test_densities_of_squashed_actions_are_those_of_torch() -> None:
    policy = torch.randn(2, 50, 2 * ACTION, generator=torch.Generator().manual_seed(3))
    noise = torch.randn(2, 50, ACTION, generator=torch.Generator().manual_seed(4))
    action, log_prob = squashed(policy, noise)
    mean, log_std = policy.chunk(2, -1)
    law = density(mean.double(), log_std.double())
    exact = law.log_prob(torch.tanh(mean.double() + log_std.double().exp() * noise.double()))
    inside = action.abs().amax(-1) < 0.999
    torch.testing.assert_close(log_prob.double()[inside], exact[inside], rtol=1e-3, atol=1e-3)


def test_the_pull_on_a_policy_is_the_divergence_from_its_anchor() -> None:
    output, target = torch.randn(2, 2, 9, 2 * ACTION, generator=torch.Generator().manual_seed(5))
    (mean, log_std), (old_mean, old_log_std) = output.chunk(2, -1), target.chunk(2, -1)
    exact = kl_divergence(Normal(old_mean, old_log_std.exp()), Normal(mean, log_std.exp())).sum(-1)
    torch.testing.assert_close(gaussian_kl(output, target), exact)
    assert not gaussian_kl(target, target).abs().gt(1e-5).any()


def test_the_temperature_of_a_task_follows_its_own_samples() -> None:
    agent = sac(task_temperature=True)
    before = agent.log_alpha.detach().clone()
    agent.update(batch(context=torch.tensor([[0, 0, 0, 2, 2, 2], [1] * 6], dtype=torch.int32)))
    moved = agent.log_alpha.detach() != before
    assert moved.tolist() == [[True, False, True], [False, True, False]]
    with pytest.raises(ValueError, match="task_temperature: wanted tasks whose id is known"):
        agent.update(batch())


def test_the_temperature_rises_where_the_policy_is_too_sure_and_falls_where_it_is_not() -> None:
    for entropy, sign in ((5.0, 1), (-50.0, -1)):
        agent = sac(entropy=entropy)
        agent.update(batch())
        assert (agent.log_alpha.detach().sign() == sign).all()


def test_a_delayed_policy_moves_every_other_update_with_or_without_branching() -> None:
    branching, masked = td3(), td3()
    masked.branches = False
    seen = []
    for _ in range(4):
        before = branching.theta.detach().clone(), branching.theta_target.clone()
        for agent in (branching, masked):
            agent.update(batch())
        after = branching.theta.detach(), branching.theta_target
        seen.append([not torch.equal(*pair) for pair in zip(before, after, strict=True)])
    assert seen == [[False, False], [True, True], [False, False], [True, True]]
    for name, tensor in branching.state_dict().items():
        torch.testing.assert_close(tensor, masked.state_dict()[name], rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("make", [sac, td3])
def test_asking_for_errors_changes_nothing_and_repeats_itself(make) -> None:
    agent = make()
    before = agent.state_dict()
    one, two = agent.evaluate(batch()), agent.evaluate(batch())
    assert torch.equal(one.td_error, two.td_error)
    assert all(torch.equal(before[name], tensor) for name, tensor in agent.state_dict().items())
    assert {key: output.shape[2:] for key, output in one.output.items()} == agent.anchors


@pytest.mark.parametrize("make", [sac, td3])
def test_exploring_actions_lie_in_the_box_and_random_ones_fill_it(make) -> None:
    agent, obs = make(), torch.zeros(2, 4000, OBS)
    acted = agent.act(obs, torch.zeros(()))
    assert acted.abs().max() <= 1
    assert acted.std(1).min() > 0.05
    random = agent.act(obs, torch.ones(()))
    assert random.mean(1).abs().max() < 0.05
    assert random.std(1).sub(1 / math.sqrt(3)).abs().max() < 0.03


CRYSTAL = {"memory": "crystal", "preset": "anchored"}
LEARNERS = {
    "uniform-sac": {"agent": "sac", "memory": "uniform"},
    "uniform-td3": {"agent": "td3", "memory": "uniform"},
    "crystal-sac": {"agent": "sac", **CRYSTAL},
    "crystal-td3": {"agent": "td3", **CRYSTAL, "params": {"kappa": 0.01}},  # .1 holds its critics back for too long
}


@pytest.mark.parametrize("design", LEARNERS.values(), ids=LEARNERS)
@pytest.mark.slow
def test_the_pendulum_is_swung_up_and_held(design: dict[str, Any]) -> None:
    """The best of the later points: an actor-critic may lose and find its policy again."""
    spec = RunSpec(
        "pendulum", **design, seeds=(0, 1, 2), steps=8_000, capacity=4_000, batch=64, envs=1, warmup=400,
        episodes=10, points=8, epsilon=0.0, explore=0.05,
        agent_params={"width": 64, "depth": 2, "learning_rate": 1e-3},
    )  # fmt: skip
    curve = [event.score for event in run(plan({"row": spec})[0]) if isinstance(event, Curve)]
    assert torch.stack(curve)[0].mean() < -900
    assert torch.stack(curve[4:]).amax(0).mean() >= -250
