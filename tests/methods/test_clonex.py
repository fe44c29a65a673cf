"""ClonEx: exploration with the heads of earlier tasks; test_cloning tests the rest."""

import pytest
import torch

from crystalrl.methods.clonex import ClonExParams
from tests.methods.runs import practise, trainer


def test_a_task_starts_with_the_heads_of_earlier_tasks() -> None:
    made = trainer("clonex", "td3", agent_params={"width": 12, "multi_head": True, "noise": 0.0})
    practise(made, 0)
    practise(made, 1)
    made.begin(2)
    obs, context = made.world.obs, made.world.context
    heads = torch.tensor([[0, 1, 0, 1]] * 2, dtype=torch.int32)
    acted = made.method.act(made.agent, obs, torch.ones(1), context)
    torch.testing.assert_close(acted, made.agent.greedy(obs, heads))
    made.method.clock.fill_(24)
    acted = made.method.act(made.agent, obs, torch.zeros(1), context)
    torch.testing.assert_close(acted, made.agent.greedy(obs, context))


def test_after_half_of_the_time_the_head_with_the_best_reward_explores() -> None:
    made = trainer("clonex", "td3", agent_params={"width": 12, "multi_head": True, "noise": 0.0})
    practise(made, 0)
    practise(made, 1)
    made.begin(2)
    made.method.total.copy_(torch.tensor([[1.0, 3.0, 0.0], [2.0, 1.0, 0.0]]))
    made.method.steps.copy_(torch.tensor([[4, 4, 0], [4, 4, 0]]))
    made.method.clock.fill_(12)
    made.method.act(made.agent, made.world.obs, torch.zeros(1), made.world.context)
    assert made.method.choice.tolist() == [[1] * 4, [0] * 4]


def test_rewards_are_credited_to_the_head_that_acted() -> None:
    made = trainer("clonex", memory="uniform")
    practise(made, 0)
    practise(made, 1)
    made.begin(2)
    made.collect()
    reward = made.transition.reward
    torch.testing.assert_close(made.method.total[:, 0], reward[:, 0] + reward[:, 2])
    torch.testing.assert_close(made.method.total[:, 1], reward[:, 1] + reward[:, 3])
    assert made.method.steps.tolist() == [[2, 2, 0]] * 2
    assert int(made.method.clock) == 4


def test_exploration_with_one_head_is_refused() -> None:
    with pytest.raises(ValueError, match="method clonex: wanted explore = 0, because there is one head, got 24"):
        trainer("clonex", agent_params={"width": 12})


def test_a_negative_time_of_exploration_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^explore: wanted a whole number ≥ 0, got -1"):
        ClonExParams(explore=-1)
