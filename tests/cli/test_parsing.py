"""The words of a command line: settings, numbers, and messages of tyro without their frame."""

import io
import sys
from dataclasses import dataclass

import pytest

from crystalrl.cli.commands import Command
from crystalrl.cli.parsing import parse_choice, parsed, take_sections, unboxed


def test_values_are_read_as_numbers_booleans_and_words() -> None:
    rest, sections = take_sections(
        ["run", "nav-2", "--params.k", "3", "--params.backup=.5", "--method-params.online", "true", "--seeds", "1"]
    )
    assert rest == ["run", "nav-2", "--seeds", "1"]
    assert sections["params"] == {"k": 3, "backup": 0.5}
    assert sections["method_params"] == {"online": True}
    assert parse_choice("none,exists") == ["none", "exists"]


@dataclass(frozen=True)
class Options:
    steps: int = 3
    """How many."""


def test_invalid_words_are_errors_with_the_suggestion_and_without_a_frame() -> None:
    assert parsed(Options, ["--steps", "4"]) == Options(4)
    with pytest.raises(ValueError, match=r"^options: wanted those that --help lists, got --stps, 4\n") as refused:
        parsed(Options, ["--stps", "4"])
    assert "--steps INT" in str(refused.value)
    assert str(refused.value).endswith("\n`crystalrl --help` lists all options")
    assert not set("│╭╰─") & set(str(refused.value))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("run nav-2 --steps 4x", "steps: wanted INT, got '4x'"),
        ("run nav-2 --seeds x", "seeds: wanted a form such as 0:16 or 0,2,5, got 'x'"),
        ("run nav-2 --seeds 5:2", "seeds: wanted a form such as 0:16 or 0,2,5, got '5:2'"),
        ("run nav-2 --checkpoint-minutes x", "checkpoint-minutes: wanted FLOAT, got 'x'"),
        ("run nav-2 --device", "device: wanted a value, got none"),
        ("run nav-2 --how foo", "how: wanted one of 'local', 'ray', got 'foo'"),
        ("completion tcsh", "shell: wanted one of 'bash', 'zsh', 'fish', got 'tcsh'"),
        ("study", "name: wanted a value, got none"),
        ("tune", "file: wanted a value, got none"),
        ("", "command: wanted one of run, study, "),
        ("doctr", "command: wanted one of check-tasks, "),
        ("inspect a b", "options: wanted those that --help lists, got b"),
        ("doctor --x", "options: wanted those that --help lists, got --x"),
    ],
)
@pytest.mark.parametrize(("columns", "encoding"), [("40", "utf-8"), ("80", "ascii"), ("200", "utf-8")])
def test_invalid_words_have_the_form_of_all_errors(
    line: str, message: str, columns: str, encoding: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However tyro breaks its lines and draws its frame."""
    monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), encoding=encoding))
    with pytest.raises(ValueError) as refused:
        parsed(Command, line.split())
    first, *_, last = str(refused.value).splitlines()
    assert first.startswith(message)
    assert last.endswith("--help` lists all options")
    if line == "doctr":
        assert first.endswith(", got 'doctr' (did you mean 'doctor'?)")


def test_help_is_printed_and_says_how_to_find_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        parsed(Options, ["--help"])
    assert "--debug" in capsys.readouterr().out


def test_text_without_a_frame_stays_as_it_is() -> None:
    assert unboxed("one\ntwo (─)") == "one\ntwo (─)"
