"""The words of a command line: settings, numbers, and messages of tyro without their frame."""

from dataclasses import dataclass

import pytest

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
    with pytest.raises(ValueError, match=r"^Unrecognized options: --stps, 4\n") as refused:
        parsed(Options, ["--stps", "4"])
    assert "--steps INT" in str(refused.value)
    assert not set("│╭╰─") & set(str(refused.value))


def test_help_is_printed_and_says_how_to_find_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        parsed(Options, ["--help"])
    assert "--debug" in capsys.readouterr().out


def test_text_without_a_frame_stays_as_it_is() -> None:
    assert unboxed("one\ntwo (─)") == "one\ntwo (─)"
