"""The agent: targets by hand, anchors, weights, lanes, and CartPole."""

import pytest
import torch

from crystalrl.agents import DQN, DQNParams, Spaces
from crystalrl.random import Streams
from crystalrl.study.plan import plan
from crystalrl.study.run import Curve, run
from crystalrl.study.spec import RunSpec
from crystalrl.types import Anchor, Batch


def agent(**params: object) -> DQN:
    return DQN(Spaces((3,), 2), DQNParams(width=8, **params), Streams([1, 2]))


def batch(size: int = 6, **changes: object) -> Batch:
    random = torch.Generator().manual_seed(0)
    fields = {
        "obs": torch.randn(2, size, 3, generator=random),
        "action": torch.randint(2, (2, size), generator=random),
        "reward": torch.randn(2, size, generator=random),
        "next_obs": torch.randn(2, size, 3, generator=random),
        "discount": torch.full((2, size), 0.9),
        "weight": torch.ones(2, size),
        "index": torch.zeros(2, size, dtype=torch.int64),
    }
    return Batch(**{**fields, **changes})


def test_the_double_target_values_the_online_choice_with_the_target_network() -> None:
    learner, drawn = agent(), batch()
    with torch.no_grad():
        learner.target += 0.3 * torch.randn(learner.target.shape, generator=torch.Generator().manual_seed(1))
    choice = learner.network(learner.theta, drawn.next_obs).argmax(-1)
    value = learner.network(learner.target, drawn.next_obs)[torch.arange(2)[:, None], torch.arange(6)[None], choice]
    torch.testing.assert_close(learner.td_target(drawn), drawn.reward + 0.9 * value)


def test_weight_zero_and_no_anchor_teach_nothing() -> None:
    learner = agent()
    before = learner.theta.detach().clone()
    learner.update(batch(weight=torch.zeros(2, 6)))
    assert torch.equal(learner.theta.detach(), before)


def test_an_anchor_alone_pulls_the_outputs_towards_itself() -> None:
    learner, goal = agent(learning_rate=1e-2), torch.ones(2, 6, 2)
    drawn = batch(weight=torch.zeros(2, 6), anchor={"q": Anchor(goal, torch.ones(2, 6))})
    distance = [float((learner.network(learner.theta, drawn.obs) - goal).square().mean().detach())]
    for _ in range(300):
        learner.update(drawn)
    distance.append(float((learner.network(learner.theta, drawn.obs) - goal).square().mean().detach()))
    assert distance[1] < 0.05 * distance[0]


def test_one_lane_with_a_huge_error_does_not_clip_the_other() -> None:
    calm, wild = agent(), agent()
    loud = batch(reward=torch.cat([torch.zeros(1, 6), torch.full((1, 6), 1e4)]))
    calm.update(batch(reward=torch.zeros(2, 6)))
    wild.update(loud)
    assert torch.equal(calm.theta.detach()[0], wild.theta.detach()[0])


def test_learning_rates_may_differ_between_lanes() -> None:
    learner = agent(learning_rate=(1e-3, 1e-2))
    before = learner.theta.detach().clone()
    learner.update(batch())
    moved = (learner.theta.detach() - before).abs().amax(-1)
    assert moved[1] / moved[0] == pytest.approx(10, rel=1e-2)


def test_a_restored_agent_goes_on_as_the_original() -> None:
    one, two = agent(), agent()
    one.update(batch())
    two.load_state_dict(one.state_dict())
    for learner in (one, two):
        learner.update(batch(reward=torch.ones(2, 6)))
    assert torch.equal(one.theta, two.theta)
    with pytest.raises(ValueError, match=r"^state theta: wanted"):
        DQN(Spaces((3,), 2), DQNParams(width=8), Streams([1])).load_state_dict(one.state_dict())


def test_dqn_balances_the_pole() -> None:
    """A Q-learner's scores go up and down: the second half of learning counts, not its last moment."""
    spec = RunSpec(
        "cartpole", seeds=(0, 1, 2), steps=30_000, capacity=15_000, batch=64, envs=2, warmup=1000, episodes=10,
        points=6, epsilon=0.05, explore=0.2, agent_params={"gamma": 0.99, "width": 64},
    )  # fmt: skip
    curve = [event.score for event in run(plan({"row": spec})[0]) if isinstance(event, Curve)]
    assert torch.stack(curve[3:]).mean() >= 195
