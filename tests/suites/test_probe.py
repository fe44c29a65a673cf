"""Trying tasks: what is reported about real environments, and which faults of broken ones are found."""

import pytest

from crystalrl.suites.probe import Limits, probe
from crystalrl.suites.sizes import Sizes
from crystalrl.suites.tasks import Task
from tests.suites.own_environments import ECHO

PLACE = ECHO.partition(":")[0]


def test_episodes_returns_and_sizes_are_those_of_the_environment() -> None:
    found = probe(Task("t", ECHO, {"size": 3, "length": 7}), Limits(episodes=4))
    assert found.problems == []
    assert found.sizes == Sizes((3,), 2)
    assert [(one.steps, one.total) for one in found.episodes] == [(7, 7.0)] * 4
    assert found.repeats
    assert any(one.success for one in found.episodes)


@pytest.mark.parametrize("make", ["CartPole-v1", "Pendulum-v1", "minatar:breakout"])
def test_real_environments_repeat_under_their_seed(make: str) -> None:
    found = probe(Task(make=make), Limits(episodes=3))
    assert (found.problems, found.repeats, len(found.episodes)) == ([], True, 3)
    assert 0 < found.seconds < 0.1


def test_an_environment_that_ignores_its_seed_does_not_repeat() -> None:
    assert probe(Task(make=f"{PLACE}:Restless")).repeats is False


def test_a_wrapper_and_physics_are_in_place_while_a_task_is_tried() -> None:
    short = probe(Task(make="CartPole-v1", physics={"theta_threshold_radians": 0.01}))
    assert max(one.steps for one in short.episodes) < 10
    assert probe(Task(make=ECHO, wrappers=(f"{PLACE}:Long",))).sizes == Sizes((5,), 2)


def test_seconds_per_step_are_those_of_the_clock() -> None:
    """The clock advances by .5 at every reading, one before the steps, one after each of the 5, one at the end."""
    readings = iter(range(1000))
    found = probe(Task(make=ECHO), Limits(episodes=1, seconds=1e9), lambda: 0.5 * next(readings))
    assert found.seconds == pytest.approx(0.5 * 6 / 5)


def test_a_slow_environment_is_left_after_some_seconds_and_is_not_wrong() -> None:
    readings = iter(range(1000))
    found = probe(Task(make=f"{PLACE}:Endless"), Limits(seconds=20), lambda: float(next(readings)))
    assert (found.problems, found.episodes) == ([], [])


@pytest.mark.parametrize(
    ("task", "message"),
    [
        (Task(make="CartPole-v1", low=3.0), "high: wanted more than low (3), got 1"),
        (Task(make="CartPole-v1", success=True), 'success: wanted "success" or "is_success" in info, got an empty one'),
        (Task(make=f"{PLACE}:Lost"), "reward: wanted finite numbers, got nan"),
        (Task(make=f"{PLACE}:Endless"), "episodes: wanted one that ends, got none in 300 steps"),
        (Task(make=f"{PLACE}:Raising"), "step: wanted a transition, got ArithmeticError: the sky fell down"),
        (Task(make=f"{PLACE}:Short"), "observation: wanted the shape (2,), got (1,)"),
        (Task(make="CartPole-v1", physics={"lenght": 1.0}), "physics.lenght: wanted an attribute of CartPoleEnv, got"),
        (Task(make=ECHO, wrappers=(f"{PLACE}:Nothing",)), f"wrappers: wanted {PLACE}:Nothing around"),
        (Task(make="no_such_package:Env"), "make: wanted the package for no_such_package:Env, got none: pip install"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named(task: Task, message: str) -> None:
    (problem,) = probe(task, Limits(steps=300)).problems
    assert problem.startswith(message)
