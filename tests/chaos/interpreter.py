"""Whether Triton's interpreter works here: several versions of it do not fit the installed NumPy.

`python -m tests.chaos.interpreter` runs a kernel that does what interpreters have failed at: a loop and a branch over
numbers that are known only when it runs. No code of the library takes part, so a fault of the library is not taken for
one of the interpreter.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from functools import cache

from tests.chaos.campaign import ROOT, packages

SECONDS = 120
"""Time in which the kernel must have run."""


@cache
def no_interpreter() -> str:
    """For `Attack.lacks`."""
    return packages("triton")() or interpreter_error(os.environ)


def interpreter_error(environment: Mapping[str, str]) -> str:
    """Why the interpreter does not work with these environment variables; empty if it does."""
    paths = filter(None, [environment.get("PYTHONPATH"), str(ROOT / "src"), str(ROOT)])
    done = subprocess.run(
        [sys.executable, "-m", "tests.chaos.interpreter"],
        env={**environment, "PYTHONPATH": os.pathsep.join(paths), "TRITON_INTERPRET": "1"},
        capture_output=True, text=True, check=False, timeout=SECONDS,
    )  # fmt: skip
    if done.returncode == 0:
        return ""
    said = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
    return f"wanted Triton's interpreter, got {said[-1]}"


if __name__ == "__main__":
    import torch
    import triton
    import triton.language as tl

    @triton.jit
    def halves(numbers, count):  # type: ignore[no-untyped-def]
        for place in range(count):
            number = tl.load(numbers + place)
            if number > 1:
                tl.store(numbers + place, number // 2)

    numbers = torch.arange(5)
    halves[(1,)](numbers, 5)
    assert numbers.tolist() == [0, 1, 1, 1, 2], numbers
