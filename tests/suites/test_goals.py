"""Rewards for any goal are those that each task's environment computes."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from crystalrl.suites.goals import Rewards, goal_space
from crystalrl.suites.gym import GymSuite
from crystalrl.suites.sizes import sizes_of_all
from crystalrl.suites.tasks import Task
from tests.suites.goal_environments import Arrival, Point, Single

HERE = "tests.suites.goal_environments"
NEAR, FAR = Task("near", f"{HERE}:Arrival", {"near": 0.2}), Task("far", f"{HERE}:Arrival", physics={"near": 0.9})


def goals(*shape: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    rng = torch.Generator().manual_seed(0)
    achieved, desired = (2 * torch.rand(*shape, 2, generator=rng) - 1 for _ in range(2))
    return achieved, desired, torch.randint(2, shape, generator=rng).to(torch.int32)


def test_rewards_and_endings_are_those_of_the_environment_of_each_task() -> None:
    achieved, desired, context = goals(2, 40)
    reward, terminated = Rewards([NEAR, FAR])(achieved, desired, context)
    envs = [Arrival(0.2), Arrival(0.9)]
    for lane, i in np.ndindex(2, 40):
        env, one, other = envs[context[lane, i]], achieved[lane, i].numpy(), desired[lane, i].numpy()
        assert float(reward[lane, i]) == env.compute_reward(one, other, {})
        assert bool(terminated[lane, i]) == env.compute_terminated(one, other, {})
    assert set(reward.unique().tolist()) == {-1, 0}


def test_without_endings_of_its_own_an_environment_leaves_them_and_rewards_are_clipped() -> None:
    achieved, desired, _ = goals(3, 20)
    reward, terminated = Rewards([Task("point", f"{HERE}:Point", clip=0.25)])(achieved, desired, None)
    assert terminated is None
    wanted = np.clip(Point().compute_reward(achieved.numpy(), desired.numpy(), {}), -0.25, 0.25)
    np.testing.assert_array_equal(reward.numpy(), wanted.astype(np.float32))


def test_a_reward_for_one_goal_only_is_refused() -> None:
    achieved, desired, _ = goals(1, 4)
    with pytest.raises(ValueError, match=r"compute_reward of Single: wanted one reward for each of 4 goals, got the "):
        Rewards([Task("single", f"{HERE}:Single")])(achieved, desired, None)
    assert Single().compute_reward(np.zeros(2), np.ones(2), {}) == -1


def test_goals_are_shown_where_tasks_agree_and_are_not_redefined() -> None:
    space = goal_space([NEAR, FAR], (0, 1), sizes_of_all([NEAR, FAR]).goal)
    assert (space.achieved, space.desired) == (slice(3, 5), slice(5, 7))
    assert not space.capturable
    assert goal_space([NEAR, FAR], (0, 0), (3, 2)) is None
    wide = Task("wide", f"{HERE}:Point", {"size": 3})
    assert sizes_of_all([NEAR, wide]).goal is None
    assert goal_space([NEAR], (0,), None) is None


def test_a_suite_with_hidden_ids_shows_goals_for_one_task_only() -> None:
    both, sizes = [NEAR, FAR], sizes_of_all([NEAR, FAR])
    assert GymSuite([both], sizes, [0]).goal_space is not None
    assert GymSuite([both], sizes, [0], visible=False).goal_space is None
    assert GymSuite([[NEAR]], sizes, [0], visible=False).goal_space is not None
