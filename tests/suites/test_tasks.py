"""User-defined sequences of tasks: what is refused, which stages are one task, what a file would hold."""

from dataclasses import replace

import pytest

import crystalrl
from crystalrl.suites.tasks import Sequence, Task, problems

CART = Task("cart", "CartPole-v1", low=20.0, high=500.0)


def test_the_package_offers_sequences_and_tasks() -> None:
    assert (crystalrl.Sequence, crystalrl.Task) == (Sequence, Task)


def test_stages_with_one_id_are_one_task() -> None:
    others = [Task(make="Acrobot-v1"), replace(CART, name="later", id="cart"), Task(make="Acrobot-v1", id="swing")]
    made = Sequence([CART, *others, Task("again", "Acrobot-v1", id="swing")])
    assert made.ids == (0, 1, 0, 2, 2)
    assert made.names == ("cart", "task 2 (Acrobot-v1)", "later", "task 4 (Acrobot-v1)", "again")


def test_a_stage_has_its_own_steps_or_those_of_the_run() -> None:
    made = Sequence([CART, Task(make="Acrobot-v1", steps=70)])
    assert made.steps(500) == (500, 70)
    assert made.without_steps().steps(500) == (500, 500)


def test_tuples_are_lists_from_the_start_as_they_will_be_when_a_file_was_read() -> None:
    (task,) = Sequence([Task(make="X-v0", options={"size": (1, (2, 3)), "deep": {"of": (4,)}})]).tasks
    assert task.options == {"size": [1, [2, 3]], "deep": {"of": [4]}}


BAD = {
    "make": ("", "make: wanted a Gymnasium id or module:function, got ''"),
    "options": ({"world": None}, "options: wanted a table of numbers, texts, booleans, lists and tables, got {"),
    "physics": ({"length": "long"}, "physics: wanted a table of numbers, got {"),
    "flip": (1, "flip: wanted true or false, got 1"),
    "low": (float("nan"), "low: wanted a number, got nan"),
    "high": (20.0, "high: wanted more than low (20), got 20"),
    "success": ("is_success", "success: wanted true or false, got 'is_success'"),
    "wrappers": (("no colon",), "wrappers: wanted a list of module:callable, got ('no colon',)"),
    "steps": (-1, "steps: wanted a whole number ≥ 0, got -1"),
    "id": (7, "id: wanted text, got 7"),
}


@pytest.mark.parametrize("field", BAD)
def test_a_bad_field_is_refused_with_the_name_of_its_task(field: str) -> None:
    value, message = BAD[field]
    bad = replace(CART, **{field: value})
    (found,) = problems(bad)
    assert found.startswith(message)
    with pytest.raises(ValueError) as refused:
        Sequence([replace(CART, name="good"), bad])
    assert str(refused.value).startswith(f"tasks.cart.{message}")


def test_a_success_needs_no_range_of_returns() -> None:
    assert problems(replace(CART, high=0.0, success=True)) == []


def test_sequences_that_say_nothing_or_are_ambiguous_are_refused() -> None:
    with pytest.raises(ValueError, match=r"^tasks: wanted at least one, got none"):
        Sequence([])
    with pytest.raises(ValueError, match=r"^tasks.2: wanted a Task, got 'nav-8'"):
        Sequence([CART, "nav-8"])
    with pytest.raises(ValueError, match=r"^tasks.cart.name: wanted a new one, or an id .* got it twice"):
        Sequence([CART, CART])
    with pytest.raises(ValueError, match=r"^hidden: wanted true or false, got 'yes'"):
        Sequence([CART], hidden="yes")
