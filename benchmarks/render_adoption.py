"""Write the generated parts of docs/integrations/ for the libraries beside Stable-Baselines3, from the stored results.

    python benchmarks/render_adoption.py

Results come from `benchmarks/adopt_*.py` and `benchmarks/overhead_*.py`.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path += [str(ROOT)]

from benchmarks.render import table  # noqa: E402
from benchmarks.sb3_equivalence import difference  # noqa: E402

RESULTS = ROOT / "benchmarks" / "results"
PAGES = ROOT / "docs" / "integrations"
STOCK = {
    "cleanrl": "uniform memory",
    "torchrl": "TorchRL's `RandomSampler`",
    "tianshou": "Tianshou's prioritized buffer",
}


def learning(library: str, runs: list[dict[str, Any]]) -> str:
    rows = []
    for algorithm in dict.fromkeys(r["algorithm"] for r in runs):
        d = difference(runs, algorithm, "crystal")
        theirs = f"{d['stock']:.0f} ± {d['stock_half_interval']:.0f}"
        apart = f"{d['difference']:+.0f} [{d['low']:.0f}, {d['high']:.0f}]"
        rows.append([algorithm, theirs, f"{d['ours']:.0f}", apart])
    seeds, minutes = len({r["seed"] for r in runs}), sum(r["seconds"] for r in runs) / 60
    head = [f"{seeds} seeds", f"{STOCK[library]}, 95 % interval", "crystal memory", "difference, 95 % interval (Welch)"]
    script = f"benchmarks/adopt_{library}.py"
    how = f"`python {script} --json benchmarks/results/adopt_{library}.json`, {minutes:.0f} minutes of one core."
    honest = "An interval that includes 0 means that so few seeds show no difference, not that there is none."
    return "\n\n".join([table(head, rows), f"{honest} {how}"])


def overhead(library: str, result: dict[str, Any]) -> str:
    names = list(next(iter(result["algorithms"].values())))
    rows = [[name, *(f"{each[kind]:.2f} ms" for kind in names)] for name, each in result["algorithms"].items()]
    machine = ", ".join(f"{name} {value}" for name, value in result["machine"].items())
    script = f"benchmarks/overhead_{library}.py"
    how = f"`python {script} --json benchmarks/results/overhead_{library}.json`"
    return "\n\n".join([table(["gradient step", *names], rows), f"{result['setting']} Measured on: {machine}. {how}"])


def main() -> None:
    for library in STOCK:
        path = PAGES / f"{library}.md"
        if not path.exists():
            continue
        page = path.read_text()
        for part, prefix, render in (("learning", "adopt", learning), ("overhead", "overhead", overhead)):
            stored = RESULTS / f"{prefix}_{library}.json"
            text = render(library, json.loads(stored.read_text())) if stored.exists() else "Not yet measured."
            block = re.compile(f"(<!-- {part}, generated -->\n).*?(\n<!-- end -->)", re.DOTALL)
            page = block.sub(lambda match, text=text: f"{match[1]}\n{text}\n{match[2]}", page)
        path.write_text(page)


if __name__ == "__main__":
    main()
