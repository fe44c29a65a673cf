"""The command line: a thin shell around the library."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence

from crystalrl._version import __version__
from crystalrl.cli.errors import end, interrupts_end_at_once
from crystalrl.packages import require

NEEDS = ("matplotlib", "rich", "scipy", "tyro")
"""Packages that the commands cannot do without."""
THEORY_NEEDS = ("matplotlib", "rich", "scipy", "tyro")
"""Packages that `crystalrl theory` cannot do without."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point of `crystalrl`. Errors are short messages on stderr; --debug or CRYSTALRL_DEBUG adds the traceback.

    Exit status: 2 for invalid input, 1 for a run that failed, 130 after Ctrl-C.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in given or bool(os.environ.get("CRYSTALRL_DEBUG"))
    words = [word for word in given if word != "--debug"]
    try:
        _run(words)
    except (Exception, KeyboardInterrupt) as error:
        raise end(error, debug) from None


def _run(words: Sequence[str]) -> None:
    if list(words) == ["--version"]:
        print(f"crystalrl {__version__}")
        return
    with interrupts_end_at_once():
        run = _command(words)
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())  # tasks may name a module of the user's, next to their file
    run(words)


def _command(words: Sequence[str]) -> Callable[[Sequence[str]], None]:
    """What runs the words; its modules are imported."""
    if list(words) == ["doctor"]:  # needs only the base packages
        from crystalrl.cli.doctor import show_doctor

        return lambda _: show_doctor()
    if words[:1] == ["theory"]:
        require("theory", *THEORY_NEEDS, extra="theory")
        from crystalrl.cli import theory

        return lambda words: theory.run_command(words[1:])
    require("command line", *NEEDS, extra="study")
    from crystalrl.cli.commands import run_command

    return run_command
