"""How a command ends if something goes wrong: one message on stderr, and an exit status."""

from __future__ import annotations

import os
import signal
import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager

INVALID, FAILED, INTERRUPTED = 2, 1, 130
"""Exit statuses: invalid input, a run that failed, Ctrl-C."""


class RunError(Exception):
    """A run that failed after it had begun. The message says what is kept."""


def end(error: BaseException, debug: bool) -> SystemExit:
    """Print what went wrong, after the traceback if `debug`; the exit to raise.

    If nobody reads the output any more (`crystalrl list | head -1`), nothing is printed.
    """
    if isinstance(error, BrokenPipeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the interpreter flushes at its end
        return SystemExit(FAILED)
    if debug:
        traceback.print_exception(error)
    message, status = _ending(error)
    print(f"crystalrl: {message}", file=sys.stderr)
    return SystemExit(status)


def _ending(error: BaseException) -> tuple[str, int]:
    if isinstance(error, KeyboardInterrupt):
        return ". ".join(["interrupted", *map(str, error.args)]), INTERRUPTED
    if isinstance(error, RunError):
        return str(error), FAILED
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: wanted a file or folder that can be used, got: {error.strerror}", INVALID
    if isinstance(error, (ValueError, OSError, ModuleNotFoundError)):
        return str(error), INVALID
    return f"{type(error).__name__}: {error} (--debug shows where)", FAILED


@contextmanager
def interrupts_end_at_once() -> Iterator[None]:
    """Here Ctrl-C ends the process. For imports: a package whose import is interrupted may go on, or fail elsewhere."""
    usual = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if not usual or threading.current_thread() is not threading.main_thread():
        yield
        return
    signal.signal(signal.SIGINT, _end_at_once)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _end_at_once(*_: object) -> None:
    os.write(2, b"crystalrl: interrupted\n")
    os._exit(INTERRUPTED)
