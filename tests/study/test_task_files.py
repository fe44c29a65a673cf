"""User-defined tasks in TOML files: what is read, and what is refused."""

import tomllib
from pathlib import Path

import pytest

from crystalrl.study.task_files import load_tasks, sequence_from
from crystalrl.suites.tasks import Task
from tests.study.own_tasks import FILE


def test_a_file_says_what_the_same_tasks_in_python_say(tmp_path: Path) -> None:
    (tmp_path / "tasks.toml").write_text(FILE)
    made = load_tasks(tmp_path / "tasks.toml")
    place = "tests.suites.own_environments"
    echo = Task(
        "task 2 (tests.suites.own_environments:Echo)", f"{place}:Echo", {"size": 3, "length": 7}, {}, True,
        success=True, wrappers=(f"{place}:Plus",), steps=240,
    )  # fmt: skip
    again = Task("task 3 (CartPole-v1)", "CartPole-v1", physics={"length": 0.8, "gravity": 12}, high=500, id="7")
    assert made.tasks == (Task("cart", "CartPole-v1", low=20, high=500.0), echo, again)
    assert made.hidden
    assert made.ids == (0, 1, 2)


def test_a_study_file_is_a_file_of_tasks_too(tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text('title = "x"\n' + FILE + "[rows.VR]\n")
    (tmp_path / "tasks.toml").write_text(FILE)
    assert load_tasks(tmp_path / "study.toml") == load_tasks(tmp_path / "tasks.toml")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"tasks.toml: wanted \[\[tasks\]\], got an empty file"),
        ("seeds = 3\n[[tasks]]\nmake = 'X-v0'", r"tasks.toml: field: wanted one of hidden, tasks, got 'seeds'"),
        ("tasks = 'nav-8'", r"^tasks: wanted tables \[\[tasks\]\], got 'nav-8'"),
        ("[[tasks]]\nmkae = 'X-v0'", r"^tasks.1.mkae: wanted .*, got 'mkae' \(did you mean 'make'\?\)"),
        ("[[tasks]]\nname = 'a'\nlow = 1\nrandom = 2", "^tasks.a.random: wanted low or random, got both"),
        ("[[tasks]]\nname = 'a'\nmake = 'X-v0'\nlow = 1", r"^tasks.a.high: wanted more than low \(1\), got 1"),
        ("[[tasks]]\nmake = 3", "^tasks.1.make: wanted a Gymnasium id or module:function, got 3"),
    ],
)
def test_a_file_that_says_something_else_is_refused(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "tasks.toml").write_text(text)
    with pytest.raises(ValueError, match=message):
        load_tasks(tmp_path / "tasks.toml")


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"tasks.toml: wanted a TOML file, got no such file$"):
        load_tasks(tmp_path / "tasks.toml")


def test_the_values_of_a_sequence_are_the_sequence() -> None:
    made = sequence_from(tomllib.loads(FILE))
    assert sequence_from(made.values()) == made
