"""Tune a study in several processes: `python -m crystalrl.study.search NAME --out FOLDER --share 1/6`.

It makes the same trials as `crystalrl tune`, but every row has a folder of its own, so that processes can share the
rows. `python -m crystalrl.study NAME --tuned FOLDER` uses them.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from crystalrl.study.__main__ import common_arguments, share_argument
from crystalrl.study.execution import prepare
from crystalrl.study.tuning import Search, Trials, study_searches, tune

Job = tuple[str, Search, Path]
"""What is tuned (table and row), its search and its folder."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse the command line and tune."""
    parser = argparse.ArgumentParser(prog="python -m crystalrl.study.search", description=__doc__)
    common_arguments(parser)
    share_argument(parser)
    given = parser.parse_args(arguments)
    stop = time.monotonic() + 60 * given.minutes
    try:
        jobs = row_jobs(study_searches(given.name, given.tables), given.out)
        share, shares = given.share
        if not _tune_all(jobs[share - 1 :: shares], given.device, stop):
            raise SystemExit(f"{given.minutes:g} minutes are over: start again to continue")
    except ValueError as error:
        print(f"crystalrl: {error}", file=sys.stderr)
        raise SystemExit(2) from None


def row_jobs(searches: Mapping[str, Search], out: Path) -> list[Job]:
    """One job for every row of every table, in order."""
    return [
        (f"{key}: {row}", _only(search, row), out / key / re.sub(r"\W+", "-", row))
        for key, search in searches.items()
        for row in search.table.rows
    ]


def left(jobs: Sequence[Job]) -> list[str]:
    """The rows that still lack trials."""
    return [
        name for name, search, folder in jobs if not folder.exists() or len(Trials(folder, search).all) < search.trials
    ]


def _only(search: Search, row: str) -> Search:
    table = replace(search.table, rows={row: search.table.rows[row]}, reference="", paper={})
    return replace(search, table=table, spaces={row: search.spaces[row]})


def _tune_all(jobs: Sequence[Job], device: str, stop: float) -> bool:
    """Run the trials that are not stored yet; False if time was up first."""
    prepare(device)
    for name, search, folder in jobs:
        if not left([(name, search, folder)]):
            continue
        if time.monotonic() > stop:
            return False
        started = time.monotonic()
        for trial in tune(search, folder, device):
            settings = ", ".join(f"{key}={value:.3g}" for key, value in trial.settings.items())
            print(f"{name} {trial.number + 1}/{search.trials}: {trial.value:.3f}, {settings}", end="")
            print(f", {time.monotonic() - started:.0f} s", flush=True)
    return True


if __name__ == "__main__":
    main()
