"""The campaign from the command line.

python -m tests.chaos run [NAME …] [--quick] [--fresh]   carry out all attacks, or those named, or go on with them
python -m tests.chaos smoke [NAME …]                     a few attempts of each
python -m tests.chaos render                             write the stored figures into docs/reliability.md
python -m tests.chaos list                               names, attempts, and how far each is
"""

from __future__ import annotations

import argparse
from pathlib import Path

from tests.chaos import smoke
from tests.chaos.attacks import ATTACKS
from tests.chaos.campaign import RESULTS, ROOT, carry_out, stored
from tests.chaos.page import render

PAGE = ROOT / "docs" / "reliability.md"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("command", choices=["run", "smoke", "render", "list"])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"attacks: {', '.join(ATTACKS)}")
    parser.add_argument("--quick", action="store_true", help="a few attempts of each, into runs/chaos")
    parser.add_argument("--fresh", action="store_true", help="start over instead of going on")
    given = parser.parse_args()
    if unknown := set(given.names) - set(ATTACKS):
        parser.error(f"NAME: wanted some of {', '.join(ATTACKS)}, got {', '.join(sorted(unknown))}")
    names = given.names or list(ATTACKS)
    if given.command == "run":
        return run(names, given.quick, given.fresh)
    if given.command == "smoke":
        return int(any(verdict.broken for verdict in smoke.verdicts(names).values()))
    if given.command == "render":
        PAGE.write_text(render(PAGE.read_text(), RESULTS))
    else:
        show(names)
    return 0


def run(names: list[str], quick: bool, fresh: bool) -> int:
    """Carry out attacks one after another; 1 if anything broke."""
    results, broken = ROOT / "runs" / "chaos" if quick else RESULTS, 0
    for name in names:
        attack = ATTACKS[name]
        if fresh:
            (results / f"{name}.json").unlink(missing_ok=True)
        tally = carry_out(attack, attack.quick if quick else attack.full, results)
        print(line(name, results), flush=True)
        for example in tally.examples[:3]:
            print(f"    {example}", flush=True)
        broken += tally.broken
    return int(broken > 0)


def show(names: list[str]) -> None:
    for name in names:
        print(line(name, RESULTS))


def line(name: str, results: Path) -> str:
    """An attack and how far it is."""
    attack, tally = ATTACKS[name], stored(results, name)
    if tally is None:
        return f"{name}: 0 of {attack.full:,} {attack.counts}"
    outcome = f"{tally.held:,} held, {tally.refused:,} refused, {tally.broken:,} broken"
    return f"{name}: {tally.attempts:,} {attack.counts}: {outcome} ({tally.seconds:,.0f} s)"


if __name__ == "__main__":
    raise SystemExit(main())
