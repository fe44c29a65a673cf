"""Pop-Art: values stay the same when the statistics change, and learning does not depend on the scale of rewards."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from crystalrl.agents import DQN, SAC, TD3, Agent, DQNParams, RainbowParams, SACParams, Spaces, TD3Params
from crystalrl.agents.pop_art import PopArt, in_units
from crystalrl.random import Streams
from crystalrl.types import Anchor, Batch
from tests.agents.batches import ACTION, OBS, anchors, batch
from tests.agents.lane_runs import assert_a_lane_equals_its_seed_alone

TASKS = 3
DISCRETE, BOX = Spaces((OBS,), ACTION, TASKS), Spaces((OBS,), (ACTION,), TASKS)
AGENTS = {
    "dqn": lambda **more: DQN(DISCRETE, DQNParams(width=8, pop_art=True, **more), Streams([1, 2])),
    "dueling": lambda **more: DQN(DISCRETE, DQNParams(width=8, pop_art=True, dueling=True, **more), Streams([1, 2])),
    "sac": lambda **more: SAC(BOX, SACParams(width=8, pop_art=True, **more), Streams([1, 2])),
    "td3": lambda **more: TD3(BOX, TD3Params(width=8, pop_art=True, **more), Streams([1, 2])),
}
every_agent = pytest.mark.parametrize("kind", AGENTS)


def drawn_for(agent: Agent, scale: float = 1.0, shift: float = 0.0) -> Batch:
    plain = batch(discrete=isinstance(agent, DQN), context=torch.arange(12).view(2, 6) % TASKS)
    return batch(discrete=isinstance(agent, DQN), context=plain.context, reward=plain.reward * scale + shift)


def networks(agent: Agent) -> tuple[torch.Tensor, torch.Tensor]:
    if isinstance(agent, DQN):
        return agent.theta, agent.target
    return agent.critics, agent.target if isinstance(agent, SAC) else agent.critics_target


def outputs(agent: Agent, drawn: Batch) -> list[torch.Tensor]:
    """Values of both networks."""
    if isinstance(agent, DQN):
        return [agent.values(theta, drawn.obs, drawn.context).detach() for theta in networks(agent)]
    return [agent.twins(theta, drawn.obs, drawn.action, drawn.context).detach() for theta in networks(agent)]


@given(
    kind=st.sampled_from(sorted(AGENTS)),
    scale=st.floats(0.05, 1000.0),
    shift=st.floats(-1000.0, 1000.0),
    steps=st.integers(1, 3),
)
def test_values_stay_the_same_when_the_statistics_change(kind: str, scale: float, shift: float, steps: int) -> None:
    agent = AGENTS[kind]()
    drawn = drawn_for(agent)
    network = agent.network if isinstance(agent, DQN) else agent.twins.network
    agent.scale.start(drawn.reward, drawn.context)
    for step in range(steps):
        before, sigma = outputs(agent, drawn), agent.scale.sigma.clone()
        agent.scale.observe(drawn.reward * scale * (step + 1) + shift, drawn.context, network, networks(agent))
        assert not torch.equal(agent.scale.sigma, sigma)
        size = scale + abs(shift)
        for old, new in zip(before, outputs(agent, drawn), strict=True):
            assert torch.allclose(old, new, rtol=1e-3, atol=1e-4 * size + 1e-4)


def test_statistics_are_those_of_the_targets_of_each_task_alone() -> None:
    scale, agent = PopArt(2, TASKS, torch.device("cpu")), AGENTS["dqn"]()
    context = torch.tensor([[0, 0, 1, 1, 1, 1]] * 2)
    target = torch.tensor([[1.0, 3.0, 10.0, 10.0, 20.0, 20.0], [0.0] * 6])
    scale.start(target, context)
    scale.observe(target, context, agent.network, (agent.theta, agent.target))
    assert torch.allclose(scale.mean[0], torch.tensor([2.0, 15.0, 0.0]).double())
    assert torch.allclose(scale.sigma[0], torch.tensor([1.0, 5.0, 1.0]).double())
    scale.observe(target + 2, context, agent.network, (agent.theta, agent.target))
    assert torch.allclose(scale.mean[0], torch.tensor([3.0, 16.0, 0.0]).double())
    assert torch.allclose(scale.unit(target, context)[0, [0, 2]].double(), scale.sigma[0, :2])


@every_agent
@pytest.mark.parametrize("factor", [2.0**-7, 2.0**7])
def test_an_agent_learns_the_same_whatever_the_unit_of_rewards(kind: str, factor: float) -> None:
    """Multiplied by a power of two, which floats represent exactly, all values are multiplied by it, bit for bit."""
    agents = [AGENTS[kind](), AGENTS[kind]()]
    for seed in range(5):
        torch.manual_seed(seed)
        for agent, unit in zip(agents, (1.0, factor), strict=True):
            agent.update(drawn_for(agent, unit))
    plain, other = (outputs(agent, drawn_for(agent))[0] for agent in agents)
    assert torch.equal(plain * factor, other)


def test_a_task_without_rewards_keeps_the_values_of_the_network() -> None:
    agent = AGENTS["dqn"]()
    drawn = drawn_for(agent, 0.0)
    agent.update(drawn)
    assert torch.equal(agent.scale.sigma, torch.ones(2, TASKS).double())
    assert not agent.scale.mean.any()


@every_agent
def test_errors_and_gradients_do_not_grow_with_the_rewards(kind: str) -> None:
    sizes = {}
    for factor in (1.0, 1000.0):
        agent = AGENTS[kind](gamma=0.0)
        drawn = drawn_for(agent, factor)
        drawn = batch(
            discrete=isinstance(agent, DQN),
            context=drawn.context,
            reward=drawn.reward,
            discount=torch.zeros(2, 6),
        )
        for _ in range(3):
            made = agent.update(drawn)
        sizes[factor] = float(made.td_error.abs().mean())
    assert sizes[1000.0] < 3 * sizes[1.0]


@every_agent
def test_a_restored_agent_goes_on_like_the_original(kind: str) -> None:
    one, two = AGENTS[kind](), AGENTS[kind]()
    drawn = drawn_for(one, 10.0, 5.0)
    one.update(drawn)
    two.load_state_dict(one.state_dict())
    for agent in (one, two):
        agent.update(drawn)
    assert all(torch.equal(tensor, two.state_dict()[name]) for name, tensor in one.state_dict().items())


def test_anchors_of_values_are_compared_in_the_unit_of_their_task() -> None:
    given_ = anchors({"q": (2,), "advantage": (2,), "policy": (4,)})
    unit = torch.full((2, 6), 4.0)
    scaled = in_units(given_, unit)
    for name in ("q", "advantage"):
        assert torch.equal(scaled[name].target * 4, given_[name].target)
    assert scaled["policy"] is given_["policy"]
    agent = AGENTS["dqn"]()
    drawn = drawn_for(agent)
    agent.update(drawn)
    held = Anchor(agent.evaluate(drawn).output["advantage"], unit)
    anchored = batch(discrete=True, context=drawn.context, weight=torch.zeros(2, 6), anchor={"advantage": held})
    assert agent.loss(anchored)[0].abs().max() < 1e-8  # the outputs that were stored cost nothing


def test_rare_rewards_count_in_full() -> None:
    """One large reward among many samples of the same state is many units large; its mean is learnt, not its median."""
    drawn = batch(discrete=True, context=torch.zeros(2, 6, dtype=torch.int64), discount=torch.zeros(2, 6))
    obs, action = drawn.obs[:, :1].expand_as(drawn.obs), drawn.action[:, :1].expand_as(drawn.action)
    reward = torch.tensor([[0.0, 0, 0, 0, 0, 6.0]] * 2)
    same = replace(drawn, obs=obs, action=action, reward=reward, weight=torch.ones(2, 6))
    agent = AGENTS["dqn"](learning_rate=1e-2)
    for _ in range(400):
        agent.update(same)
    q = agent.values(agent.theta, obs, same.context).gather(-1, action[..., None])
    assert torch.allclose(q, torch.ones_like(q), atol=0.1)


def test_fixed_atoms_cannot_be_normalised() -> None:
    with pytest.raises(ValueError, match="pop_art: wanted false, because the returns of the atoms are fixed"):
        RainbowParams(pop_art=True)


@pytest.mark.parametrize("agent", ["dqn", "sac"])
def test_a_lane_among_three_equals_its_seed_alone_bit_for_bit(agent: str) -> None:
    suite = "classic-discrete" if agent == "dqn" else "classic-continuous"
    assert_a_lane_equals_its_seed_alone(
        {"suite": suite, "agent": agent, "agent_params": {"width": 16, "pop_art": True}}
    )
