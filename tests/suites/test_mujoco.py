"""Six MuJoCo robots: sizes, references of the scores, and tiny runs with the real package."""

import gymnasium
import pytest
import torch

from crystalrl.suites.benchmarks import benchmark
from crystalrl.suites.gym import GymSuite
from tests.suites.policies import random_action
from tests.suites.published import assert_continues, assert_declared_sizes, assert_steps, group_of, scores, shortened


def test_six_robots_step_within_the_declared_sizes() -> None:
    assert_declared_sizes("mujoco-6", range(6))
    assert_steps("mujoco-6", range(6))


def test_a_run_that_is_interrupted_goes_on_bit_for_bit() -> None:
    own = shortened("mujoco-6", [2, 0], max_episode_steps=20)
    assert_continues(group_of(own, agent="sac"), at=60)


def test_a_score_gives_the_return_back() -> None:
    found = benchmark("mujoco-6")
    task = found.tasks.tasks[0]
    made = GymSuite([[task]], found.sizes, [0])
    score = made.evaluator(2).score(
        lambda obs, _: torch.zeros(1, obs.shape[1], 17), torch.zeros(1, 1, dtype=torch.int64)
    )
    assert (task.low, task.high) == (-280.0, 12_000.0)
    raw = task.low + float(score) * (task.high - task.low)
    assert -200 < raw < 20  # without torques a cheetah stays where it is
    assert gymnasium.spec(task.make).max_episode_steps == found.episode == 1000


@pytest.mark.slow
def test_a_random_policy_scores_about_zero_on_every_robot() -> None:
    found = benchmark("mujoco-6")
    made = GymSuite([found.tasks.tasks], found.sizes, [0], ids=found.tasks.ids)
    random = torch.Generator().manual_seed(0)
    stages = torch.arange(6)[None]
    score = made.evaluator(20).score(lambda obs, _: random_action(made, 1, obs.shape[1], random), stages)
    assert score.abs().max() < 0.03


@pytest.mark.slow
def test_results_do_not_depend_on_the_number_of_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    group = group_of(shortened("mujoco-6", range(6), max_episode_steps=30), agent="td3")
    expected = scores(group)
    monkeypatch.setenv("CRYSTALRL_WORKERS", "2")
    assert all((a == b).all() for a, b in zip(expected, scores(group), strict=True))
