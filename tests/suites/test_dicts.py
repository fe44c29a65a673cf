"""Dict observations of goal-conditioned environments become vectors."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest

from crystalrl.suites.dicts import PARTS, GoalVectors, shows_goals
from tests.suites.goal_environments import Arrival, Flat, Frames, Point


def test_a_vector_holds_the_parts_one_after_another() -> None:
    plain, env = Arrival(), GoalVectors(Arrival())
    assert env.goal == (3, 2)
    assert env.observation_space.shape == (7,)
    seen, expected = env.reset(seed=3)[0], plain.reset(seed=3)[0]
    for action in np.random.default_rng(0).uniform(-1, 1, (5, 2)).astype(np.float32):
        np.testing.assert_array_equal(seen, np.concatenate([expected[part] for part in PARTS]).astype(np.float32))
        (seen, *others), (expected, *wanted) = env.step(action), plain.step(action)
        assert others == wanted
    assert env.unwrapped is env.env


def test_only_goal_conditioned_environments_show_goals() -> None:
    assert shows_goals(Point())
    assert not shows_goals(gymnasium.make("CartPole-v1"))
    point = Point()
    point.observation_space = gymnasium.spaces.Dict({"observation": point.observation_space["observation"]})
    assert not shows_goals(point)


def test_parts_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match=r"observations: wanted two goals of one shape, got \(2,\), \(3,\)"):
        GoalVectors(Flat())
    with pytest.raises(ValueError, match="observations: wanted a vector under observation, got Box"):
        GoalVectors(Frames())
