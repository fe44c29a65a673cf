"""Random actions: how many, how they are distributed, and which kinds of actions an agent accepts."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch

from crystalrl.agents import SAC, TD3
from crystalrl.agents.exploration import action_count, action_size, epsilon_greedy
from crystalrl.random import Streams
from tests.agents.batches import BOX, DISCRETE, OBS, sac, td3


@pytest.mark.parametrize("make", [sac, td3])
def test_exploring_actions_lie_in_the_box_and_random_ones_fill_it(make: Callable[[], SAC | TD3]) -> None:
    agent, obs = make(), torch.zeros(2, 4000, OBS)
    acted = agent.act(obs, torch.zeros(()))
    assert acted.abs().max() <= 1
    assert acted.std(1).min() > 0.05
    random = agent.act(obs, torch.ones(()))
    assert random.mean(1).abs().max() < 0.05
    assert random.std(1).sub(1 / math.sqrt(3)).abs().max() < 0.03


def test_each_lane_explores_with_its_own_probability_and_all_actions_are_equally_likely() -> None:
    greedy, epsilon = torch.full((2, 8000), -1), torch.tensor([[0.25], [1.0]])
    acted = epsilon_greedy(greedy, epsilon, 4, Streams([1, 2]))
    assert (acted >= 0).float().mean(1).tolist() == pytest.approx([0.25, 1.0], abs=0.02)
    shares = torch.bincount(acted[1], minlength=4) / 8000
    assert shares.tolist() == pytest.approx([0.25] * 4, abs=0.02)


def test_agents_refuse_the_other_kind_of_actions() -> None:
    assert (action_count(DISCRETE), action_size(BOX)) == (2, 2)
    with pytest.raises(ValueError, match=r"agent: wanted one for box actions \(2,\), such as sac"):
        action_count(BOX)
    with pytest.raises(ValueError, match="agent: wanted one for 2 discrete actions, such as dqn"):
        action_size(DISCRETE)
