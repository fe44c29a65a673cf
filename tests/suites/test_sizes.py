"""Sizes that fit all tasks, and what cannot be mixed."""

import pytest
import torch

from crystalrl.suites.sizes import Sizes, largest, sizes_of, sizes_of_all
from crystalrl.suites.tasks import Sequence, Task
from tests.suites.own_environments import ECHO

PLACE = ECHO.partition(":")[0]
CART, PENDULUM, GAME = Task("cart", "CartPole-v1"), Task("swing", "Pendulum-v1"), Task("game", "minatar:breakout")


def test_the_largest_observation_and_action_fit_all_tasks() -> None:
    assert sizes_of_all([CART, Task("car", "MountainCar-v0")]) == Sizes((4,), 3)
    boxes = [Task(f"{size}", ECHO, {"size": size, "box": 7 - size}) for size in (2, 5)]
    assert sizes_of_all(boxes) == Sizes((5,), (5,))
    assert sizes_of_all([GAME, Task("other", "minatar:freeway")]) == Sizes((10, 10, 7), 6, torch.bool)


def test_wrappers_decide_the_sizes() -> None:
    flat = Task("flat", "minatar:breakout", wrappers=(f"{PLACE}:Flat",))
    assert sizes_of(flat) == Sizes((400,), 6)


@pytest.mark.parametrize(
    ("tasks", "message"),
    [
        ([CART, PENDULUM], "^tasks: wanted one kind of actions, got boxes in swing, discrete in cart$"),
        ([CART, GAME], "^tasks: wanted one kind of observations, got frames in game, vectors in cart$"),
        ([Task("t", f"{PLACE}:tuples")], r"^tasks.t.observations: wanted vectors or frames \(H, W, C\), got Discrete"),
        ([Task("t", "no_such_package:Env")], "^tasks.t.make: wanted the package .* pip install no_such_package"),
        ([Task("t", "no_such_package:X/Y-v5")], "^tasks.t.make: wanted the package .* pip install no_such_package"),
        ([Task("t", f"{PLACE}:Nothing")], "^tasks.t.make: wanted an environment, got AttributeError: .*Nothing"),
        ([Task("t", "CartPole-v9")], "^tasks.t.make: wanted an environment, got VersionNotFound: .*`CartPole`"),
        ([Task("t", ECHO, {"colour": 1})], "^tasks.t.make: wanted an environment, got TypeError: .*colour"),
        ([Task("t", ECHO, wrappers=(f"{PLACE}:Nothing",))], "^tasks.t.wrappers: wanted .*:Nothing around"),
        ([Task("t", f"{PLACE}:free")], r"^tasks.t.actions: wanted discrete ones, or a vector with finite"),
    ],
)  # fmt: skip
def test_tasks_that_do_not_fit_are_refused_by_name(tasks: list[Task], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        sizes_of_all(Sequence(tasks).tasks)


def test_a_stack_of_images_is_noticed_and_a_stack_of_vectors_is_not() -> None:
    game = Task("game", "atari:Pong")
    assert sizes_of_all([game, Task("other", "atari:Boxing")]) == Sizes((4, 84, 84), 18, torch.uint8, 4)
    assert largest([Sizes((4, 84, 84), 6, torch.uint8, 4), Sizes((4, 84, 84), 6, torch.uint8)]).stack is None
