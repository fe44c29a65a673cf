"""A study in several processes on one machine: `python -m crystalrl.study.parallel NAME --jobs 6 --out FOLDER`.

With `--tuned FOLDER`, rows with a search are tuned first. Everything that is finished is kept; the same command
continues. On one GPU, processes run side by side if its multi-process service is on (`nvidia-cuda-mps-control -d`).
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from crystalrl.study.__main__ import common_arguments
from crystalrl.study.search import left, row_jobs
from crystalrl.study.tuning import study_searches


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse the command line, start the processes and wait for them."""
    parser = argparse.ArgumentParser(prog="python -m crystalrl.study.parallel", description=__doc__)
    common_arguments(parser)
    parser.add_argument("--tuned", type=Path, help="folder of trials; those that are missing are run first")
    parser.add_argument("--jobs", type=int, default=6, help="processes that run at the same time")
    given = parser.parse_args(arguments)
    try:
        raise SystemExit(_run(given))
    except ValueError as error:
        print(f"crystalrl: {error}", file=sys.stderr)
        raise SystemExit(2) from None


def _run(given: argparse.Namespace) -> int:
    """Tune, then train; the exit status."""
    stop = time.monotonic() + 60 * given.minutes
    same = [given.name, "--device", given.device, *(["--tables", given.tables] if given.tables else [])]
    searches = study_searches(given.name, given.tables) if given.tuned is not None else {}
    extra: list[str] = []
    if given.tuned is not None:
        extra = ["--tuned", str(given.tuned)]
        _start("crystalrl.study.search", [*same, "--out", str(given.tuned)], given.jobs, stop)
        missing = left(row_jobs(searches, given.tuned))
        if missing:
            print(f"not tuned yet: {', '.join(missing)}: start again to continue", file=sys.stderr)
            return 1
    return _start("crystalrl.study", [*same, *extra, "--out", str(given.out)], given.jobs, stop)


def _start(module: str, arguments: Sequence[str], jobs: int, stop: float) -> int:
    """Run a module in some processes, each with its share; the largest exit status."""
    minutes = max((stop - time.monotonic()) / 60, 0.0)
    command = [sys.executable, "-m", module, *arguments, "--minutes", f"{minutes:.3f}"]
    running = [subprocess.Popen([*command, "--share", f"{part}/{jobs}"]) for part in range(1, jobs + 1)]
    try:
        return max(process.wait() for process in running)
    except KeyboardInterrupt:
        for process in running:
            process.wait()
        return 130


if __name__ == "__main__":
    main()
