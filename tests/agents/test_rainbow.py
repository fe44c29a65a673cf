"""Rainbow: projections and gradients against loops, anchors, noise, CartPole and Breakout."""

import pytest
import torch

from crystalrl.agents import Rainbow
from crystalrl.random import Stream
from crystalrl.study.plan import plan
from crystalrl.study.run import Curve, Scored, Trainer, run
from crystalrl.study.spec import RunSpec
from tests.agents.batches import ACTION, OBS, anchors, batch, perceptron, rainbow
from tests.agents.lane_runs import ANCHORED, HEADS, SMALL, Design, assert_a_lane_equals_its_seed_alone

DESIGNS: dict[str, Design] = {
    "rainbow": {"suite": "cartpole-2", "agent": "rainbow", "memory": "prioritized", "agent_params": SMALL},
    "rainbow anchored": {"suite": "minatar-5", "agent": "rainbow", "agent_params": HEADS, **ANCHORED},
    "rainbow ewc": {"suite": "minatar-5", "agent": "rainbow", "method": "ewc", "agent_params": SMALL},
}


@pytest.mark.parametrize("design", DESIGNS.values(), ids=DESIGNS)
def test_a_lane_among_three_equals_its_seed_alone_bit_for_bit(design: Design) -> None:
    assert_a_lane_equals_its_seed_alone(design)


def agent(**params: object) -> Rainbow:
    return rainbow(**{"atoms": 7, "low": -2.0, "high": 3.0, **params})


def divided(made: Rainbow, share: torch.Tensor, reward: float, discount: float) -> torch.Tensor:
    """The projection of C51, atom by atom."""
    low, high, atoms = made.params.low, made.params.high, made.params.atoms
    gap = (high - low) / (atoms - 1)
    out = torch.zeros(atoms)
    for p, z in zip(share, made.returns, strict=True):
        place = float(((reward + discount * z).clamp(low, high) - low) / gap)
        under = min(int(place), atoms - 2)
        out[under] += p * (1 - (place - under))
        out[under + 1] += p * (place - under)
    return out


def test_a_distribution_is_divided_between_the_nearest_atoms() -> None:
    made, random = agent(), torch.Generator().manual_seed(0)
    share = torch.rand(2, 5, 7, generator=random).softmax(-1)
    reward = torch.tensor([[0.0, 0.3, -5.0, 9.0, 1.1]] * 2)
    discount = torch.tensor([[1.0, 0.9, 0.9, 0.9, 0.0]] * 2)
    got = made.projected(share, reward, discount)
    torch.testing.assert_close(got.sum(-1), torch.ones(2, 5))
    for i in range(5):
        wanted = divided(made, share[1, i], float(reward[1, i]), float(discount[1, i]))
        torch.testing.assert_close(got[1, i], wanted, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(got[:, 0], share[:, 0])  # nothing was moved


def test_gradients_equal_those_of_a_loop_over_samples() -> None:
    made = agent(noisy=False, dueling=False)
    with torch.no_grad():
        made.target += 0.2 * torch.randn(made.target.shape, generator=torch.Generator().manual_seed(2))
    drawn = batch(discrete=True, anchor=anchors(made.anchors))
    measured = torch.autograd.grad(made.loss(drawn)[0].sum(), made.theta)[0]
    total = torch.zeros(())
    for lane in range(2):
        for i in range(6):
            with torch.no_grad():
                next_obs = drawn.next_obs[lane, i]
                online = perceptron(made.network, made.theta[lane], next_obs).view(ACTION, 7).softmax(-1)
                best = int((online * made.returns).sum(-1).argmax())
                future = perceptron(made.network, made.target[lane], next_obs).view(ACTION, 7).softmax(-1)[best]
                target = divided(made, future, float(drawn.reward[lane, i]), 0.9)
            logits = perceptron(made.network, made.theta[lane], drawn.obs[lane, i]).view(ACTION, 7)
            q, held = (logits.softmax(-1) * made.returns).sum(-1), drawn.anchor["advantage"]
            one = -drawn.weight[lane, i] * (target * logits[drawn.action[lane, i]].log_softmax(-1)).sum()
            variance = (made.params.high - made.params.low) ** 2 / 12
            distance = (q - q.mean() - held.target[lane, i]).square().sum() / variance
            total = total + (one + held.coefficient[lane, i] * distance) / 6
    torch.testing.assert_close(measured, torch.autograd.grad(total, made.theta)[0], rtol=1e-4, atol=1e-5)


def test_td_errors_and_anchors_are_those_of_the_means() -> None:
    made = agent(low=-20.0, high=20.0, atoms=41)  # wide enough to clip almost nothing
    drawn = batch(discrete=True)
    evaluation = made.evaluate(drawn)
    q = (made.network(made.theta, drawn.obs).softmax(-1) * made.returns).sum(-1)
    torch.testing.assert_close(evaluation.output["advantage"], q - q.mean(-1, keepdim=True))
    next_q = (made.network(made.theta, drawn.next_obs).softmax(-1) * made.returns).sum(-1)
    wanted = drawn.reward + 0.9 * next_q.amax(-1) - q.gather(-1, drawn.action[..., None]).squeeze(-1)
    torch.testing.assert_close(
        evaluation.td_error, wanted, rtol=1e-3, atol=2e-2
    )  # but the ends of the range clip a little


def test_noise_explores_differently_at_every_step_and_not_at_all_when_greedy() -> None:
    made = agent()
    with torch.no_grad():
        made.theta.mul_(torch.where(torch.arange(made.network.size) < made.network.used // 2, 0.1, 3.0))
    obs = torch.randn(2, 64, OBS, generator=torch.Generator().manual_seed(0))
    ticks = made.streams.ticks.clone()
    assert torch.equal(made.greedy(obs), made.greedy(obs))
    assert torch.equal(made.streams.ticks, ticks)
    acted = torch.stack([made.act(obs, torch.zeros(())) for _ in range(12)])
    assert (acted != acted[0]).any(0).float().mean() > 0.3
    assert made.streams.ticks[Stream.EXPLORE] == ticks[Stream.EXPLORE] + 24


def test_the_memory_sums_n_rewards() -> None:
    (group,) = plan({"row": RunSpec("cartpole", agent="rainbow", capacity=64, batch=16, envs=1)})
    trainer = Trainer(group, torch.device("cpu"))
    trainer.begin(0)
    for _ in range(40):
        trainer.collect()
    batch = trainer.memory.sample(64)
    whole = batch.discount > 0.95  # γ³ where no episode ended in between
    assert whole.any()
    torch.testing.assert_close(batch.reward[whole], torch.full_like(batch.reward[whole], 1 + 0.99 + 0.99**2))
    torch.testing.assert_close(batch.discount[whole], torch.full_like(batch.reward[whole], 0.99**3))


RAINBOWS = {
    "uniform": {"memory": "uniform"},
    "prioritized": {"memory": "prioritized"},
    "crystal": {"memory": "crystal", "preset": "anchored"},
}
POLE = {"width": 64, "learning_rate": 5e-4, "target_rate": 0.02, "n_step": 5, "low": 0.0, "high": 100.0}


@pytest.mark.slow
@pytest.mark.parametrize("memory", RAINBOWS.values(), ids=list(RAINBOWS))
def test_rainbow_balances_the_pole(memory: dict[str, str]) -> None:
    spec = RunSpec(
        "cartpole", agent="rainbow", **memory, seeds=(0, 1, 2), steps=20_000, capacity=4_000, batch=64, envs=2,
        warmup=400, episodes=10, points=10, epsilon=0.02, explore=0.1, agent_params=POLE,
    )  # fmt: skip
    curve = [event.score for event in run(plan({"row": spec})[0]) if isinstance(event, Curve)]
    assert torch.stack(curve[5:]).mean() >= 195


@pytest.mark.slow
@pytest.mark.parametrize("memory", RAINBOWS.values(), ids=list(RAINBOWS))
def test_rainbow_plays_breakout_far_better_than_chance(memory: dict[str, str]) -> None:
    spec = RunSpec(
        "minatar-breakout", agent="rainbow", **memory, seeds=(0, 1), steps=32_000, capacity=4_000, batch=32, envs=4,
        warmup=2000, episodes=10, points=8, epsilon=0.02, explore=0.1,
        agent_params={"width": 128, "depth": 1, "learning_rate": 5e-4, "target_rate": 0.01, "high": 20.0, "low": 0.0},
    )  # fmt: skip
    events = list(run(plan({"row": spec})[0]))
    curve = torch.stack([event.score for event in events if isinstance(event, Curve)])
    untrained = next(event.score for event in events if isinstance(event, Scored))
    assert untrained.mean() < 1.0
    assert curve[4:].mean() >= 2.5  # a random policy gets about .5
