"""Atari games: preprocessing, scores, rewards that are clipped, frames stored once, and tiny runs."""

import pytest
import torch

from crystalrl.memory.storage.frame_arena import FrameArena
from crystalrl.study.run import Trainer
from crystalrl.suites import atari
from crystalrl.suites.benchmarks import benchmark
from crystalrl.suites.gym import GymSuite
from crystalrl.suites.worker import make
from tests.suites.policies import random_action
from tests.suites.published import assert_continues, assert_declared_sizes, assert_steps, group_of, scores, shortened

RAINBOW = {"agent": "rainbow", "memory": "prioritized"}


def test_games_and_their_scores() -> None:
    assert len(atari.SCORES) == 20
    assert set(atari.FIVE) < set(atari.SCORES)
    assert all(random < human for random, human in atari.SCORES.values())
    assert benchmark("atari-20").tasks.names == tuple(atari.SCORES)
    assert benchmark("atari-5").episode == 4_500


def test_the_emulator_is_set_up_as_described() -> None:
    env = make(vars(benchmark("atari-5").tasks.tasks[0]))
    ale = env.unwrapped.ale
    assert ale.getFloat("repeat_action_probability") == 0.25
    assert ale.getInt("max_num_frames_per_episode") == 18_000
    assert env.action_space.n == 18
    env.reset(seed=0)
    before = ale.getEpisodeFrameNumber()
    env.step(0)
    assert ale.getEpisodeFrameNumber() - before == 4


def test_games_step_within_the_declared_sizes() -> None:
    assert_declared_sizes("atari-5", [0, 1])
    assert_steps("atari-20", [0, 17], steps=40)


def test_the_agent_sees_clipped_rewards_and_the_score_counts_them_as_they_are() -> None:
    (alien,) = shortened("atari-20", [0], frames=400).tasks
    made = GymSuite([[alien]], benchmark("atari-20").sizes, [0])
    world, random = made.world(1), torch.Generator().manual_seed(0)
    world.reset(torch.tensor([0]))
    raw, seen = [], []
    for _ in range(60):
        seen.append(float(world.step(random_action(made, 1, 1, random)).reward))
        raw.append(float(world.host["reward"]))
    assert max(raw) > 1
    assert seen == [min(max(reward, -1.0), 1.0) for reward in raw]
    score = made.evaluator(1).score(
        lambda obs, _: random_action(made, 1, 1, random), torch.zeros(1, 1, dtype=torch.int64)
    )
    points = alien.low + float(score) * (alien.high - alien.low)
    assert points >= 10
    assert round(points, 3) == 10 * round(points / 10)  # the game gives points by tens


def test_a_run_stores_each_frame_once_and_goes_on_bit_for_bit_after_an_interruption() -> None:
    group = group_of(shortened("atari-5", [0, 1], frames=60), **RAINBOW, steps=24)
    memory = Trainer(group, torch.device("cpu")).memory
    assert isinstance(memory.arena, FrameArena)
    assert_continues(group, at=30)


@pytest.mark.slow
def test_results_do_not_depend_on_the_number_of_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    group = group_of(shortened("atari-5", range(5), frames=200), **RAINBOW)
    expected = scores(group)
    monkeypatch.setenv("CRYSTALRL_WORKERS", "2")
    assert all((a == b).all() for a, b in zip(expected, scores(group), strict=True))


@pytest.mark.slow
def test_all_twenty_games_step() -> None:
    assert_steps("atari-20", range(20), steps=100)
