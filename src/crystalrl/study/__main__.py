"""Run a study with only PyTorch and NumPy installed: `python -m crystalrl.study NAME --out FOLDER`.

It makes the same runs and files as `crystalrl study`, but prints less; `crystalrl report FOLDER` renders both.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from crystalrl.study.definition import Table, load_study
from crystalrl.study.events import Scored
from crystalrl.study.execution import best_device, execute, pending, prepare
from crystalrl.study.plan import Group, plan
from crystalrl.study.store import Store
from crystalrl.study.tuning import with_best
from crystalrl.suites.tasks import Sequence as TaskSequence


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse the command line and run."""
    given = _parser().parse_args(arguments)
    try:
        tables = load_study(given.name, given.tables)
        if given.tuned is not None:
            tables = {key: with_best(table, given.tuned / key) for key, table in tables.items()}
        if given.steps:
            tables = {key: _shorter(table, given.steps) for key, table in tables.items()}
        stop = time.monotonic() + 60 * given.minutes
        jobs = _jobs(tables, given.out)[given.share[0] - 1 :: given.share[1]]
    except ValueError as error:
        print(f"crystalrl: {error}", file=sys.stderr)
        raise SystemExit(2) from None
    try:
        _run_all(jobs, given.device, stop, given.minutes)
    except KeyboardInterrupt:
        print("crystalrl: interrupted. Results so far are kept: the same command continues", file=sys.stderr)
        raise SystemExit(130) from None


def _run_all(jobs: Sequence[tuple[str, Group, Store]], device: str, stop: float, minutes: float) -> None:
    """Train what is not stored yet, until time is up."""
    prepare(device)
    for number, (name, group, store) in enumerate(jobs):
        if store.has(group.key):
            continue
        if time.monotonic() > stop:
            raise SystemExit(
                f"{minutes:g} minutes are over, {len(jobs) - number} runs are left: start again to continue"
            )
        _run(name, group, store, device)
    failed = [
        one["what"] for store in {store.folder: store for _, _, store in jobs}.values() for one in store.failures()
    ]
    if failed:
        raise SystemExit("\n".join(["failed:", *failed]))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m crystalrl.study", description=__doc__)
    common_arguments(parser)
    share_argument(parser)
    parser.add_argument("--tuned", type=Path, help="folder of trials: rows get the settings of their best one")
    parser.add_argument("--steps", type=int, default=0, help="steps per task, instead of the study's own, for a trial")
    return parser


def common_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of every module that runs a study."""
    parser.add_argument("name", help="a built-in study, or a .toml file")
    parser.add_argument("--out", type=Path, required=True, help="results folder; an interrupted study continues there")
    parser.add_argument("--tables", default="", help="tables to run, separated by commas; default: all")
    parser.add_argument("--device", default=best_device())
    parser.add_argument("--minutes", type=float, default=1e9, help="start no new run after this many minutes")


def share_argument(parser: argparse.ArgumentParser) -> None:
    """An option of modules whose work several processes share."""
    parser.add_argument(
        "--share",
        type=_share,
        default=(1, 1),
        help="part of the runs to do, such as 2/3 for the second of three processes",
    )


def _share(text: str) -> tuple[int, int]:
    part, _, parts = text.partition("/")
    if not (part.isdigit() and parts.isdigit() and 1 <= int(part) <= int(parts)):
        raise argparse.ArgumentTypeError(f"wanted a form such as 1/2, got {text!r}")
    return int(part), int(parts)


def _shorter(table: Table, steps: int) -> Table:
    suite = table.suite.without_steps() if isinstance(table.suite, TaskSequence) else table.suite
    return replace(table, rows={name: replace(spec, suite=suite, steps=steps) for name, spec in table.rows.items()})


def _jobs(tables: Mapping[str, Table], out: Path) -> list[tuple[str, Group, Store]]:
    """All runs of all tables with their stores, the longest first."""
    jobs = []
    for key, table in tables.items():
        store, groups = Store(out / key, table.to_toml()), plan(table.runs())
        pending(groups, store)  # raises for conflicting parts before anything is trained
        jobs += [(key, group, store) for group in groups]
    return sorted(jobs, key=lambda job: -len(job[1].lanes) * job[1].steps * job[1].spec.capacity)


def _run(name: str, group: Group, store: Store, device: str) -> None:
    rows, started = ", ".join(dict.fromkeys(lane.method for lane in group.lanes)), time.monotonic()
    for _, event in execute([group], store, device):
        if isinstance(event, Scored) and event.after:
            score = float(event.score[:, : event.after].nanmean())
            what = f"{rows} ×{len(group.lanes)}, task {event.after}: {score:.3f}, {time.monotonic() - started:.0f} s"
            print(f"{name}: {what}" if name else what, flush=True)


if __name__ == "__main__":
    main()
