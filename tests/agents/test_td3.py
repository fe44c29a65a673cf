"""TD3: gradients against a loop over samples, and the delay of the policy."""

from __future__ import annotations

import pytest
import torch

from crystalrl.agents.exploration import normals
from crystalrl.random import Streams
from tests.agents.batches import ACTION, anchors, batch, perceptron, td3, twin_values
from tests.agents.lane_runs import ANCHORED, SMALL, Design, assert_a_lane_equals_its_seed_alone
from tests.agents.pendulum import CRYSTAL, UNIFORM, best_later_score

DESIGNS: dict[str, Design] = {
    "td3": {"suite": "mountaincar-2", "agent": "td3", "agent_params": {**SMALL, "layer_norm": True}},
    "td3 anchored": {"suite": "pendulum-2", "agent": "td3", "agent_params": SMALL, **ANCHORED},
}


@pytest.mark.parametrize("design", DESIGNS.values(), ids=DESIGNS)
def test_a_lane_among_three_equals_its_seed_alone_bit_for_bit(design: Design) -> None:
    assert_a_lane_equals_its_seed_alone(design)


@pytest.mark.parametrize("action_l2", [0.0, 0.3])
def test_gradients_equal_those_of_a_loop_over_samples(action_l2: float) -> None:
    agent = td3(action_l2=action_l2)
    with torch.no_grad():
        agent.critics_target += 0.1
        agent.theta_target -= 0.1
    drawn = batch(anchor=anchors(agent.anchors))
    twin = Streams([1, 2])
    twin.ticks.copy_(agent.streams.ticks)
    noise = (0.2 * normals(twin, drawn.obs, ACTION)).clamp(-0.5, 0.5)
    critics = torch.autograd.grad(agent.loss(drawn)[0].sum(), agent.critics)[0]
    policy = torch.autograd.grad(agent.policy_loss(drawn).sum(), agent.theta)[0]
    critic_loss, policy_loss = torch.zeros(()), torch.zeros(())
    for lane in range(2):
        for i in range(6):
            obs, next_obs = drawn.obs[lane, i], drawn.next_obs[lane, i]
            with torch.no_grad():
                action = torch.tanh(perceptron(agent.network, agent.theta_target[lane], next_obs)) + noise[lane, i]
                value = twin_values(agent.twins, agent.critics_target, lane, next_obs, action.clamp(-1, 1)).min()
                target = drawn.reward[lane, i] + 0.9 * value
            q = twin_values(agent.twins, agent.critics, lane, obs, drawn.action[lane, i])
            critic_loss = critic_loss + drawn.weight[lane, i] * 0.5 * (target - q).square().sum() / 6
            raw, held = perceptron(agent.network, agent.theta[lane], obs), drawn.anchor["policy"]
            own = torch.tanh(raw)
            value = twin_values(agent.twins, agent.critics.detach(), lane, obs, own)[0]
            policy_loss = policy_loss + (action_l2 * raw.square().mean() - value) / 6
            policy_loss = policy_loss + held.coefficient[lane, i] * (own - held.target[lane, i]).square().sum() / 6
    torch.testing.assert_close(critics, torch.autograd.grad(critic_loss, agent.critics)[0], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(policy, torch.autograd.grad(policy_loss, agent.theta)[0], rtol=1e-4, atol=1e-5)


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


LEARNERS: dict[str, Design] = {
    "uniform-td3": {"agent": "td3", **UNIFORM},
    "crystal-td3": {"agent": "td3", **CRYSTAL, "params": {"kappa": 0.01}},  # .1 holds its critics back for too long
}


@pytest.mark.parametrize("design", LEARNERS.values(), ids=LEARNERS)
@pytest.mark.slow
def test_the_pendulum_is_swung_up_and_held(design: Design) -> None:
    first, best = best_later_score(design)
    assert first < -900
    assert best >= -250
