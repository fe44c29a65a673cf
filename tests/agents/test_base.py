"""What holds for every agent: restoring, independent lanes, evaluation without side effects, refusals."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from crystalrl.agents import DQN, Agent, DQNParams
from crystalrl.agents.base import require_tensor
from crystalrl.random import Streams
from tests.agents.batches import AGENTS, DISCRETE, batch_for, dqn

Make = Callable[[], Agent]
every_agent = pytest.mark.parametrize("make", AGENTS.values(), ids=AGENTS)


@every_agent
def test_a_restored_agent_continues_like_the_original(make: Make) -> None:
    one, two = make(), make()
    drawn = batch_for(one)
    for _ in range(3):
        one.update(drawn)
    one.act(drawn.obs, torch.tensor(0.5))
    two.load_state_dict(one.state_dict())
    for agent in (one, two):
        agent.update(drawn)
        agent.act(drawn.obs, torch.tensor(0.5))
        agent.update(drawn)
    for key, tensor in one.state_dict().items():
        assert torch.equal(tensor, two.state_dict()[key]), key


def test_a_state_with_other_shapes_or_names_is_refused() -> None:
    state = dqn().state_dict()
    with pytest.raises(ValueError, match=r"^state theta: wanted"):
        DQN(DISCRETE, DQNParams(width=8), Streams([1])).load_state_dict(state)
    with pytest.raises(ValueError, match=r"^state: wanted"):
        dqn().load_state_dict({name: tensor for name, tensor in state.items() if name != "theta"})


@every_agent
def test_one_lane_with_a_huge_error_does_not_disturb_the_other(make: Make) -> None:
    calm, wild = make(), make()
    calm.update(batch_for(calm, reward=torch.zeros(2, 6)))
    wild.update(batch_for(wild, reward=torch.cat([torch.zeros(1, 6), torch.full((1, 6), 1e4)])))
    for key in ("theta", "critics"):
        if key in calm.state_dict():
            rows = [agent.state_dict()[key].unflatten(0, (2, -1))[0] for agent in (calm, wild)]
            assert torch.equal(*rows)


@every_agent
def test_evaluating_changes_nothing_and_gives_the_same_again(make: Make) -> None:
    agent = make()
    drawn, before = batch_for(agent), agent.state_dict()
    one, two = agent.evaluate(drawn), agent.evaluate(drawn)
    assert torch.equal(one.td_error, two.td_error)
    assert all(torch.equal(before[name], tensor) for name, tensor in agent.state_dict().items())
    assert {key: output.shape[2:] for key, output in one.output.items()} == agent.anchors


def test_settings_out_of_range_are_refused() -> None:
    with pytest.raises(ValueError, match=r"^learning_rate: wanted numbers > 0, got \(0.1, 0.0\)"):
        DQNParams(learning_rate=(0.1, 0.0))
    with pytest.raises(ValueError, match=r"^schedule: wanted one of constant, cosine, robbins-monro, got linear"):
        DQNParams(schedule="linear")


def test_dict_observations_are_refused() -> None:
    with pytest.raises(TypeError, match=r"^obs: wanted a tensor, got a dict with keys \['a'\]"):
        require_tensor({"a": torch.zeros(1)})
