"""Running `crystalrl theory` in this process."""

from __future__ import annotations

import io

from rich.console import Console

from crystalrl.cli.theory import run_command


def run(*arguments: str) -> str:
    """Output of a command."""
    console = Console(file=io.StringIO(), width=160)
    run_command(list(arguments), console)
    return console.file.getvalue()  # type: ignore[attr-defined]
