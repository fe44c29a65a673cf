"""The campaign from the command line.

python -m tests.chaos run [NAME …]      carry out all attacks, or those named, or go on with them
python -m tests.chaos smoke [NAME …]    a few attempts of each
python -m tests.chaos render            write the stored figures into docs/reliability.md
python -m tests.chaos list              names, attempts, and how far each is
"""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path

from tests.chaos import smoke
from tests.chaos.attacks import ATTACKS
from tests.chaos.campaign import RESULTS, ROOT, VARIABLE, Tally, stored
from tests.chaos.crew import Order, carry_out
from tests.chaos.page import render

PAGE = ROOT / "docs" / "reliability.md"


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.chaos", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("command", choices=["run", "smoke", "render", "list"])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"attacks: {', '.join(ATTACKS)}")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="processes; the figures do not depend on it")
    parser.add_argument(
        "--results", type=Path, metavar="DIR", help=f"folder of the figures (default: ${VARIABLE}, or results/chaos)"
    )
    parser.add_argument("--quick", action="store_true", help="a few attempts of each, into runs/chaos")
    parser.add_argument("--fresh", action="store_true", help="start over instead of going on")
    given = parser.parse_intermixed_args()
    if unknown := set(given.names) - set(ATTACKS):
        parser.error(f"NAME: wanted some of {', '.join(ATTACKS)}, got {', '.join(sorted(unknown))}")
    if given.jobs < 1:
        parser.error(f"--jobs: wanted a whole number ≥ 1, got {given.jobs}")
    names = given.names or list(ATTACKS)
    results = given.results or (ROOT / "runs" / "chaos" if given.quick else RESULTS)
    if given.command == "run":
        return run(names, results.resolve(), given)
    if given.command == "smoke":
        return int(any(verdict.broken for verdict in smoke.verdicts(names).values()))
    if given.command == "render":
        PAGE.write_text(render(PAGE.read_text(), results))
    else:
        for name in names:
            print(line(name, stored(results, name)))
    return 0


def run(names: list[str], results: Path, given: argparse.Namespace) -> int:
    """Carry out attacks; 1 if anything broke or an attack could not be prepared."""
    if given.fresh:
        for name in names:
            (results / f"{name}.json").unlink(missing_ok=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # ends the children too
    wanted = [(ATTACKS[name], ATTACKS[name].quick if given.quick else ATTACKS[name].full) for name in names]
    orders = carry_out(wanted, results, given.jobs, tell=told)
    return int(any(order.tally.broken or (order.undone and not order.attack.lacks()) for order in orders))


def told(order: Order) -> None:
    """Print how an attack ended."""
    if order.undone:
        print(f"{order.attack.name}: left undone: {order.undone}", flush=True)
        return
    print(line(order.attack.name, order.tally), flush=True)
    for example in order.tally.examples[:3]:
        print(f"    {example}", flush=True)


def line(name: str, tally: Tally | None) -> str:
    """An attack and how far it is."""
    attack = ATTACKS[name]
    if tally is None:
        return f"{name}: 0 of {attack.full:,} {attack.counts}"
    outcome = f"{tally.held:,} held, {tally.refused:,} refused, {tally.broken:,} broken"
    done = f"{tally.attempts:,} of {tally.wanted:,} {attack.counts}"
    return f"{name}: {done}: {outcome} ({tally.processor_seconds:,.0f} s of processor time)"


if __name__ == "__main__":
    raise SystemExit(main())
