"""Running `crystalrl theory` in this process."""

from __future__ import annotations

import io

from rich.console import Console

from crystalrl.cli.theory import main


def run(*arguments: str) -> tuple[int, str]:
    """Exit code and output of a command."""
    console = Console(file=io.StringIO(), width=160)
    code = main(list(arguments), console)
    return code, console.file.getvalue()  # type: ignore[attr-defined]
