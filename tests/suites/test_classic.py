"""Classic control and MinAtar: their shapes, what varies between tasks, and the score of a random policy."""

import gymnasium
import numpy as np
import pytest
import torch

from crystalrl.study.plan import stage_tasks
from crystalrl.study.registry import check_suite
from crystalrl.suites import classic
from crystalrl.suites.classic import FAMILIES, suite
from crystalrl.suites.worker import reset_seed
from tests.suites.policies import random_action

ALL = [*FAMILIES, *(f"{name}-3" for name in FAMILIES), *classic.MIXED, "minatar-5", "minatar-breakout"]


def environment(world, row: int = 0):
    """The environment of a row, without its wrappers."""
    return world.pool._slots.now[row][0].unwrapped


@pytest.mark.parametrize("name", ALL)
def test_every_suite_has_the_shapes_and_tasks_it_declares(name: str) -> None:
    check_suite(name)
    made = suite(name, [0, 1])
    assert made.tasks == stage_tasks(name)
    world, random = made.world(2), torch.Generator().manual_seed(0)
    for stage in made.tasks:
        world.reset(torch.full((2,), stage))
        for _ in range(30):
            step = world.step(random_action(made, 2, 2, random))
            assert step.next_obs.shape == (2, 2, *made.obs)
            assert step.next_obs.dtype == made.obs_dtype
            assert (step.context is None) == (len(made.tasks) == 1)
            if step.context is not None:
                assert (step.context == stage).all()


def test_a_family_is_gymnasium_s_environment_with_its_own_seeds() -> None:
    made = suite("pendulum", [5])
    world = made.world(1)
    world.reset(torch.zeros(1, dtype=torch.int64))
    twin = gymnasium.make("Pendulum-v1")
    base = world.pool._requests[0]["seed"]
    obs, _ = twin.reset(seed=reset_seed(base, 0))
    random = np.random.default_rng(0)
    for _ in range(450):
        np.testing.assert_array_equal(world.obs[0, 0], obs)
        action = random.uniform(-1, 1, 1).astype(np.float32)
        step = world.step(torch.from_numpy(action)[None, None])
        obs, reward, _, truncated, _ = twin.step(-2 + (action + 1) / 2 * 4)
        np.testing.assert_array_equal(step.next_obs[0, 0], obs)
        assert float(step.reward) == np.float32(reward)
        assert bool(step.truncated) == truncated
        if truncated:
            obs, _ = twin.reset(seed=reset_seed(base, int(world.pool.arrays["episode"][0])))


def test_tasks_differ_in_physics_the_first_is_unchanged_and_none_depends_on_their_number() -> None:
    few, many = suite("pendulum-2", [3, 4]), suite("pendulum-5", [4])
    assert few.stages[1] == many.stages[0][:2]
    assert few.stages[0][1].physics != few.stages[1][1].physics
    world = few.world(1)
    world.reset(torch.tensor([0, 0]))
    assert [environment(world, row).g for row in range(2)] == [10.0, 10.0]
    world.reset(torch.tensor([1, 1]))
    for lane in range(2):
        drawn = few.stages[lane][1].physics
        assert {name: getattr(environment(world, lane), name) for name in drawn} == drawn
        assert all(0.8 <= drawn[name] / value <= 1.2 for name, value in FAMILIES["pendulum"].physics.items())
    world.reset(torch.tensor([0, 0]))
    assert environment(world).g == 10.0


@pytest.mark.parametrize("name", ["cartpole-0", "cartpol", "pendulum-3-shown", "minatar-6", "minatar-pong", "gym:"])
def test_suites_that_do_not_exist_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match=r"^suite: wanted"):
        check_suite(name)


@pytest.mark.parametrize("name", [*(f"{family}-1" for family in FAMILIES), "minatar-5"])
def test_a_random_policy_scores_about_zero(name: str) -> None:
    made, random = suite(name, [0]), torch.Generator().manual_seed(0)
    stages = torch.tensor([[0, 1, 3, 4] if name == "minatar-5" else [0]])  # Freeway is long, and random play scores 0
    score = made.evaluator(20).score(lambda obs, context: random_action(made, *obs.shape[:2], random), stages)
    assert score.abs().max() < 0.15


def test_any_gymnasium_environment_is_a_suite() -> None:
    made = suite("gym:Acrobot-v1", [3])
    assert (made.obs, made.action, made.tasks) == ((6,), 3, (0,))
    world, family = made.world(1), suite("acrobot", [3]).world(1)
    for each in (world, family):
        each.reset(torch.zeros(1, dtype=torch.int64))
    for action in torch.randint(3, (40, 1, 1), generator=torch.Generator().manual_seed(0)):
        assert torch.equal(world.step(action).next_obs, family.step(action).next_obs)
    with pytest.raises(ValueError, match=r"got gym:HalfCheeta-v5: .*Did you mean: `HalfCheetah`"):
        check_suite("gym:HalfCheeta-v5")
