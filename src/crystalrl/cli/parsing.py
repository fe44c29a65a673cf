"""From the words of a command line to options."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout, suppress
from textwrap import dedent
from typing import Any

import tyro

from crystalrl.study.spec import SECTIONS, Value, unknown

DESCRIPTION = """Continual reinforcement learning: train, compare, report.

crystalrl --version prints the version; --debug, with any command, shows where an error was raised.
First commands: `crystalrl doctor` tests the installation, `crystalrl demo` trains and shows a report.
"""


def parsed(options: Any, words: Sequence[str], program: str = "crystalrl", description: str = DESCRIPTION) -> Any:
    """The chosen options. Invalid words are a ValueError; `--help` prints and exits."""
    said = io.StringIO()
    try:
        with redirect_stderr(said):
            return tyro.cli(options, prog=program, description=description, args=list(words))
    except SystemExit as ended:
        if not ended.code:
            raise
        raise ValueError(worded(unboxed(said.getvalue()))) from None


def completion_script(options: Any, shell: str, program: str = "crystalrl") -> str:
    """A script for bash, zsh or fish that completes the words of these options."""
    said = io.StringIO()
    with redirect_stdout(said), suppress(SystemExit):
        tyro.cli(options, prog=program, args=["--tyro-print-completion", shell])
    return said.getvalue()


def unboxed(text: str) -> str:
    """A message without the frame that tyro draws around it, or the title and rules if the output is not UTF-8."""
    title = re.match(r"\s*\S[^\n]*\n\s*-{8,}\s*\n", text)
    lines = dedent(text[title.end() :]).splitlines() if title else [line.strip() for line in text.splitlines()]
    inside = [line.strip("│╭╮╰╯").rstrip() for line in lines]
    kept = [line.removeprefix(" ") for line in inside if "──" not in line and not re.fullmatch(r"\s*-{8,}", line)]
    return "\n".join(kept).strip()


FORMS: tuple[tuple[str, str], ...] = (
    (r"Error parsing -*([\w.-]+): \1: (wanted .+?) Argument helptext:", r"\1: \2"),
    (r"Error parsing -*([\w.-]+): .*?(\S+) Argument helptext: -*\1(?:, -\w+)? (\S+)", r"\1: wanted \3, got \2"),
    (r"Error parsing \S+: (.+?)(?: Argument helptext:| For full helptext|$)", r"\1"),
    (r"Missing value for argument '-*([\w.-]+)'", r"\1: wanted a value, got none"),
    (r"Missing from .+?: \S+ ([\w-]+) \(required\)", r"\1: wanted a value, got none"),
    (
        r"invalid choice '(.*?)' for argument '-*([\w.-]+)'\. Expected one of \((.+?)\)",
        r"\2: wanted one of \3, got '\1'",
    ),
    (r"Expected one of \{(.+?)\}", r"command: wanted one of \1, got none"),
    (r"Unrecognized options: (.+?) (?:Perhaps|For full|Available)", r"options: wanted those that --help lists, got \1"),
)
"""What tyro says, on one line → the same as name: wanted X, got Y."""


def worded(text: str) -> str:
    """A message of tyro in the form of all errors; suggestions and the command that helps follow it."""
    line = " ".join(text.split())
    found = ((re.match(pattern, line), form) for pattern, form in FORMS)
    first = next((match.expand(form) for match, form in found if match), line)
    command = re.match(r"Unrecognized options: (\S+).* Available subcommands: (.+) For full", line)
    if command:
        first = unknown("command", command[1], command[2].split(", "))
    hints = re.search(r"^Perhaps you meant:.*?(?=\nFor full)", text, re.M | re.S)
    helps = re.search(r"For full helptext, \w+:? (.+ --help)", line)
    return "\n".join([first, *([hints[0]] if hints else []), *([f"`{helps[1]}` lists all options"] if helps else [])])


def take_sections(arguments: Sequence[str]) -> tuple[list[str], dict[str, dict[str, Any]]]:
    """Split off `--params.NAME VALUE` and the other sections: the remaining words, and section → name → value(s)."""
    rest: list[str] = []
    sections: dict[str, dict[str, Any]] = {section: {} for section in SECTIONS}
    words = iter(arguments)
    for word in words:
        option, given, value = word.partition("=")
        section, _, name = option.removeprefix("--").replace("-", "_").partition(".")
        if not (word.startswith("--") and section in sections and name):
            rest.append(word)
            continue
        sections[section][name] = parse_choice(value if given else next(words, ""))
    return rest, sections


def parse_choice(given: str) -> Value | list[Value]:
    """A number, a boolean, a word, or several of them separated by commas."""
    values = [_parse(part) for part in given.split(",")]
    return values if len(values) > 1 else values[0]


def _parse(word: str) -> Value:
    if word.lower() in ("true", "false"):
        return word.lower() == "true"
    for kind in (int, float):
        try:
            return kind(word)
        except ValueError:
            continue
    return word
