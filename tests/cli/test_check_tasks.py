"""`crystalrl check-tasks`: a table of what was seen, and an exit status."""

from pathlib import Path

import pytest

from crystalrl.cli import main
from tests.study.own_tasks import FILE

GOOD = """
[[tasks]]
name = "cart"
make = "CartPole-v1"
random = 20
human = 500
[[tasks]]
name = "car"
make = "MountainCar-v0"
low = -200
high = -110
[[tasks]]
name = "cart, later"
id = "cart"
make = "CartPole-v1"
high = 500
"""


def cells(said: str, name: str) -> list[str]:
    (line,) = (line for line in said.splitlines() if line.strip("│").split("│")[0].strip() == name)
    return [cell.strip() for cell in line.strip("│").split("│")]


@pytest.fixture(autouse=True)
def _wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")


def checked(text: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """Exit status, and what was printed."""
    (folder / "tasks.toml").write_text(text)
    status = 0
    try:
        main(["check-tasks", f"{folder}/tasks.toml"])
    except SystemExit as ended:
        status = int(str(ended.code))
    return status, "".join(capsys.readouterr())


def test_the_table_shows_spaces_lengths_returns_and_scores(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, said = checked(GOOD, tmp_path, capsys)
    assert status == 0
    assert cells(said, "car")[:-1] == ["car", "2", "3", "200", "-200", "0.00", "yes"]
    cart = cells(said, "cart")
    assert (cart[1:3], cart[6]) == (["4", "2"], "yes")
    low, high = (float(end) for end in cart[4].split(" … "))
    assert cart[5] == f"{(low - 20) / 480:.2f} … {(high - 20) / 480:.2f}"
    assert "3 stages, 2 tasks, id visible; observations 4, actions 3." in said


def test_a_success_is_a_score_of_one_and_its_absence_of_zero(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, said = checked(FILE, tmp_path, capsys)
    assert status == 0
    assert cells(said, "task 2 (tests.suites.own_environments:Echo)")[1:6] == ["3", "2", "7", "7", "0.00 … 1.00"]
    assert "id hidden" in said


def test_everything_that_is_wrong_is_said_and_the_status_is_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = GOOD.replace("high = -110", "high = -300").replace('"CartPole-v1"\nhigh', '"no_such_package:Env"\nhigh')
    status, said = checked(text, tmp_path, capsys)
    assert status == 1
    assert "wrong tasks.car.high: wanted more than low (-200), got -300\n" in said
    assert "wrong tasks.cart, later.make: wanted the package for no_such_package:Env" in said
    assert "stages" not in said


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("MountainCar-v0", "Pendulum-v1", "wrong tasks: wanted one kind of actions, got boxes in car, discrete in"),
        ('id = "cart"', 'name = "cart"', "wrong tasks.cart.name: wanted a new one, or an id"),
    ],
)  # fmt: skip
def test_tasks_that_do_not_go_together_are_wrong(
    before: str, after: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = GOOD.replace(before, after)
    text = text.replace('name = "cart, later"\n', "") if after.startswith("name") else text
    status, said = checked(text, tmp_path, capsys)
    assert status == 1
    assert message in said


def test_a_file_that_cannot_be_read_is_invalid_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, said = checked("[[tasks]]\nmkae = 'X-v0'\n", tmp_path, capsys)
    assert (status, "did you mean 'make'?" in said) == (2, True)
