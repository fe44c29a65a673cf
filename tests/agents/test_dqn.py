"""DQN: targets by hand, anchors, weights, lanes, and CartPole."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from crystalrl.losses import advantages
from crystalrl.study.plan import plan
from crystalrl.study.run import Curve, run
from crystalrl.study.spec import RunSpec
from crystalrl.types import Anchor
from tests.agents.batches import batch, dqn
from tests.agents.lane_runs import SMALL, Design, assert_a_lane_equals_its_seed_alone

DESIGNS: dict[str, Design] = {
    "dqn frames": {"suite": "minatar-5", "method": "distill", "agent_params": {**SMALL, "dueling": True}},
    "dqn hidden": {"suite": "cartpole-2-hidden", "agent_params": {"width": 9, "schedule": "cosine"}},
}


@pytest.mark.parametrize("design", DESIGNS.values(), ids=DESIGNS)
def test_a_lane_among_three_equals_its_seed_alone_bit_for_bit(design: Design) -> None:
    assert_a_lane_equals_its_seed_alone(design)


def test_the_double_target_evaluates_the_online_choice_with_the_target_network() -> None:
    learner, drawn = dqn(), batch(discrete=True)
    with torch.no_grad():
        learner.target += 0.3 * torch.randn(learner.target.shape, generator=torch.Generator().manual_seed(1))
    choice = learner.network(learner.theta, drawn.next_obs).argmax(-1)
    value = learner.network(learner.target, drawn.next_obs)[torch.arange(2)[:, None], torch.arange(6)[None], choice]
    torch.testing.assert_close(learner.td_target(drawn), drawn.reward + 0.9 * value)


def test_weight_zero_and_no_anchor_teach_nothing() -> None:
    learner = dqn()
    before = learner.theta.detach().clone()
    learner.update(batch(discrete=True, weight=torch.zeros(2, 6)))
    assert torch.equal(learner.theta.detach(), before)


def test_an_anchor_alone_pulls_the_outputs_towards_itself() -> None:
    learner, target = dqn(learning_rate=1e-2), torch.ones(2, 6, 2)
    drawn = batch(discrete=True, weight=torch.zeros(2, 6), anchor={"q": Anchor(target, torch.ones(2, 6))})
    distance = [float((learner.network(learner.theta, drawn.obs) - target).square().mean().detach())]
    for _ in range(300):
        learner.update(drawn)
    distance.append(float((learner.network(learner.theta, drawn.obs) - target).square().mean().detach()))
    assert distance[1] < 0.05 * distance[0]


def test_anchored_advantages_hold_the_order_of_actions_and_leave_the_level_of_values_free() -> None:
    """TD learning raises all values by 5 while anchors hold the differences between actions."""
    learner = dqn(learning_rate=1e-2)
    still = batch(discrete=True, discount=torch.zeros(2, 6))
    before = learner.network(learner.theta, still.obs).detach()
    reward = before.gather(-1, still.action[..., None]).squeeze(-1) + 5
    held = {"advantage": Anchor(learner.evaluate(still).output["advantage"], torch.ones(2, 6))}
    for _ in range(1000):
        learner.update(replace(still, reward=reward, weight=torch.ones(2, 6), anchor=held))
    after = learner.network(learner.theta, still.obs).detach()
    torch.testing.assert_close(after, before + 5, rtol=0, atol=0.3)
    assert (advantages(after) - advantages(before)).abs().max() < 0.15


def test_learning_rates_may_differ_between_lanes() -> None:
    learner = dqn(learning_rate=(1e-3, 1e-2))
    before = learner.theta.detach().clone()
    learner.update(batch(discrete=True))
    moved = (learner.theta.detach() - before).abs().amax(-1)
    assert moved[1] / moved[0] == pytest.approx(10, rel=1e-2)


def test_the_target_network_moves_once_per_target_every_updates() -> None:
    learner, moved = dqn(target_every=3, target_rate=1.0), []
    for _ in range(6):
        before = learner.target.clone()
        learner.update(batch(discrete=True))
        moved.append(not torch.equal(learner.target, before))
    assert moved == [False, False, True, False, False, True]
    assert torch.equal(learner.target, learner.theta.detach())


def test_the_method_s_penalty_joins_the_loss() -> None:
    class Ridge:
        def penalty(self, part: str, theta: torch.Tensor) -> torch.Tensor:
            assert part == "q"
            return theta.square().sum(-1)

    learner, drawn = dqn(), batch(discrete=True)
    extra = learner.loss(drawn, Ridge())[0] - learner.loss(drawn)[0]
    torch.testing.assert_close(extra, learner.theta.square().sum(-1))


@pytest.mark.slow
def test_dqn_balances_the_pole() -> None:
    """A Q-learner's scores go up and down: the second half of learning counts, not its last moment."""
    spec = RunSpec(
        "cartpole", seeds=(0, 1, 2), steps=30_000, capacity=15_000, batch=64, envs=2, warmup=1000, episodes=10,
        points=6, epsilon=0.05, explore=0.2, agent_params={"gamma": 0.99, "width": 64},
    )  # fmt: skip
    curve = [event.score for event in run(plan({"row": spec})[0]) if isinstance(event, Curve)]
    assert torch.stack(curve[3:]).mean() >= 195
