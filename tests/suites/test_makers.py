"""Environments of other packages behind Gymnasium's interface."""

import subprocess
import sys

import numpy as np
import pytest

from crystalrl.suites.makers import MetaWorld, atari
from crystalrl.suites.sizes import sizes_of
from crystalrl.suites.tasks import Task


def track(env, seed: int, steps: int = 12) -> list[bytes]:
    """What an episode shows under fixed actions."""
    random, seen = np.random.default_rng(0), [np.asarray(env.reset(seed=seed)[0]).tobytes()]
    for _ in range(steps):
        count = getattr(env.action_space, "n", None)
        action = random.uniform(-1, 1, 4).astype(np.float32) if count is None else int(random.integers(count))
        obs, reward, *_ = env.step(action)
        seen.append(np.asarray(obs).tobytes() + np.float64(reward).tobytes())
    return seen


@pytest.mark.parametrize("make", [lambda: MetaWorld("reach-v3", steps=50), lambda: atari("Pong")])
def test_the_same_seed_gives_the_same_episode_whatever_was_played_before(make) -> None:
    used = make()
    first = track(used, 1)
    assert track(used, 2) != first
    assert track(used, 1) == first == track(make(), 1)


def test_a_meta_world_episode_is_truncated_after_its_steps_and_reports_success() -> None:
    env = MetaWorld("reach-v3", steps=3)
    env.reset(seed=0)
    steps = [env.step(np.zeros(4, np.float32)) for _ in range(3)]
    assert [truncated for *_, truncated, _ in steps] == [False, False, True]
    assert "success" in steps[0][4]


def test_goals_differ_between_episodes_and_there_are_fifty() -> None:
    env = MetaWorld("reach-v3")
    goals = {tuple(env.reset(seed=seed)[0][-3:]) for seed in range(30)}
    assert 15 < len(goals) <= 30
    assert len(env.goals) == 50


def test_an_unknown_task_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="wanted a Meta-World task such as reach-v3, got 'fly-v3'"):
        sizes_of(Task("fly", "meta-world:fly-v3"))


def test_workers_do_not_load_pytorch() -> None:
    code = "import sys, crystalrl.suites.worker; sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
