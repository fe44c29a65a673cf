"""`python -m tools.tables`: writes the tables of README and docs that come from stored results or from the code."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable
from functools import partial

from crystalrl.params import CrystalParams
from crystalrl.study import registry
from crystalrl.theory import Tasks, recommend
from tools import findings
from tools.stored import ROOT, ROWS, entry, markdown, results_of

PAGES = ("README.md", "docs/choose.md", "docs/index.md", "docs/evidence.md")
STUDIES = {"eight tasks": "eight", "sixteen tasks, few slots": "sixteen", "two of ten tasks redefined": "redefined"}
"""Column → table of the studies `default` and `nav-evidence`."""
SHOWN = ("kappa", "melt", "interference", "gate", "overflow", "clock")
"""Parameters by which presets are compared."""
STEPS = 20_000
"""Environment steps per task in the table of slots."""
BLOCK = re.compile(r"(<!-- made: (\w+) -->\n).*?(\n<!-- end -->)", re.S)


def results() -> str:
    """Mean final score over all tasks, with its 95 % interval, of every method in every study."""
    studies = ("default", "nav-evidence")
    stored = [[results_of(f"{study}/{table}") for study in studies] for table in STUDIES.values()]
    return markdown(["", *STUDIES], ([label, *(entry(each, name) for each in stored)] for label, name in ROWS.items()))


def presets() -> str:
    """What each preset is for, and where it differs from the others."""
    made = {name: getattr(CrystalParams, name)() for name in registry.presets()}
    rows = ([f"`{name}`", about, *(str(getattr(made[name], p)) for p in SHOWN)] for name, about in _abouts().items())
    return markdown(["preset", "what it is", *(f"`{name}`" for name in SHOWN)], rows)


def _abouts() -> dict[str, str]:
    page = ("`docs/paper-to-the-letter.md`", "[this page](paper-to-the-letter.md)")
    return {name: about.replace(*page) for name, about in registry.presets().items()}


def slots() -> str:
    """The smallest memory, in steps of 100 slots, that keeps enough crystals of each task, and what it holds."""
    rows = []
    for tasks in (2, 4, 8, 16, 32):
        size = 100 * bisect_left(range(4 * tasks), True, lo=2, key=partial(_enough, tasks))
        found = recommend(Tasks(size, STEPS, tasks))
        kept = (f"{found.remaining:,.0f}", f"{found.remaining_of_last:,.0f}")
        rows.append([f"{tasks}", f"{size:,}", f"{size / tasks:,.0f}", *kept, f"{found.time_unit}"])
    return markdown(["tasks", "slots", "per task", "crystals kept of each", "of the last", "`time_unit`"], rows)


def _enough(tasks: int, hundreds: int) -> bool:
    needs = Tasks(100 * hundreds, STEPS, tasks)
    return recommend(needs).remaining >= needs.crystals


TABLES: dict[str, Callable[[], str]] = {"results": results, "presets": presets, "slots": slots, **findings.TABLES}


def render(text: str) -> str:
    """A page with its tables updated."""
    return BLOCK.sub(lambda block: f"{block[1]}\n{TABLES[block[2]]()}\n{block[3]}", text)


if __name__ == "__main__":
    for page in PAGES:
        (ROOT / page).write_text(render((ROOT / page).read_text()))
