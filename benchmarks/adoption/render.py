"""Write the generated parts of docs/integrations/ for the libraries beside Stable-Baselines3, from stored results."""

from __future__ import annotations

import json
import re
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from benchmarks.learning import difference
from benchmarks.render import table

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results"
PAGES = ROOT / "docs" / "integrations"
LIBRARIES = {
    "cleanrl": {"stock": "uniform memory"},
    "tianshou": {"stock": "Tianshou's prioritized buffer"},
    "torchrl": {"stock": "TorchRL's `RandomSampler`", "prioritized": "TorchRL's `PrioritizedSampler`"},
}
"""And the buffers of its own that learning is compared with."""
HEADS = {"plain": "ours with c ≡ 0", "crystal": "crystal memory"}


def uneven(library: str, runs: list[dict[str, Any]]) -> str:
    """Single scores where a mean hides them: their standard deviation is more than half of it."""
    found: dict[tuple[str, str], list[float]] = {}
    for r in sorted(runs, key=lambda r: r["seed"]):
        found.setdefault((r["algorithm"], r["buffer"]), []).append(r["score"])
    wide = {algorithm for (algorithm, _), scores in found.items() if stdev(scores) > 0.5 * abs(mean(scores))}
    names = LIBRARIES[library] | HEADS
    lists = [
        f"{algorithm}, {names[buffer]}: {', '.join(f'{score:.0f}' for score in scores)}"
        for (algorithm, buffer), scores in found.items()
        if algorithm in wide
    ]
    return f"Single runs differ much, by seed: {'; '.join(lists)}." if lists else ""


def learning(library: str, runs: list[dict[str, Any]]) -> str:
    rows, below = [], []
    here = {(r["algorithm"], r["buffer"]): [] for r in runs}
    for r in runs:
        here[r["algorithm"], r["buffer"]].append(r["seed"])
    for algorithm, own in [(a, b) for a, b in here if b in LIBRARIES[library]]:
        row = [algorithm, str(len(here[algorithm, own])), LIBRARIES[library][own]]
        its = difference(runs, algorithm, "crystal", own)
        row += [f"{its['stock']:.0f} ± {its['stock_half_interval']:.0f}"]
        for buffer, name in HEADS.items():
            if (algorithm, buffer) not in here:
                row += ["", ""]
                continue
            d = difference(runs, algorithm, buffer, own)
            row += [f"{d['ours']:.0f}", f"{d['difference']:+.0f} [{d['low']:.0f}, {d['high']:.0f}]"]
            if d["high"] < 0:
                below.append(f"{algorithm} with {name}, beside {LIBRARIES[library][own]}")
        rows.append(row)
    head = ["", "seeds", "beside", "its score ± 95 %"]
    head += [text for name in HEADS.values() for text in (name, "difference [95 %]")]
    minutes = sum(r["seconds"] for r in runs) / 60
    verdict = f"Worse, beyond chance: {'; '.join(below)}." if below else "No difference is below 0 beyond chance."
    honest = "An interval (Welch) that includes 0 means that so few seeds show no difference, not that there is none."
    how = f"`python -m benchmarks.adoption learning {library}`, {minutes:.0f} minutes of one core."
    return "\n\n".join(filter(None, [table(head, rows), uneven(library, runs), f"{verdict} {honest} {how}"]))


def overhead(library: str, result: dict[str, Any]) -> str:
    names = list(next(iter(result["algorithms"].values())))
    rows = [[name, *(f"{each[kind]:.2f} ms" for kind in names)] for name, each in result["algorithms"].items()]
    machine = ", ".join(f"{name} {value}" for name, value in result["machine"].items())
    how = f"`python -m benchmarks.adoption overhead {library}`"
    return "\n\n".join([table(["gradient step", *names], rows), f"{result['setting']} Measured on: {machine}. {how}"])


def parts(library: str, found: dict[str, Any]) -> str:
    rows = []
    (_, first), *_ = found.items()
    for name, each in found.items():
        runs = [{"algorithm": "", "buffer": "stock", "score": score} for score in first["scores"]]
        runs += [{"algorithm": "", "buffer": "ours", "score": score} for score in each["scores"]]
        d = difference(runs, "", "ours")
        apart = "" if each is first else f"{d['difference']:+.0f} [{d['low']:.0f}, {d['high']:.0f}]"
        rows.append([name, f"{d['ours']:.0f}", apart])
    minutes = sum(each["seconds"] for each in found.values()) / 60
    spread = stdev(first["scores"])
    how = (
        f"Standard deviation between seeds, uniform memory: {spread:.0f}. `python -m benchmarks.adoption parts`, "
        f"{minutes:.0f} minutes of one core."
    )
    head = [f"{len(first['scores'])} seeds", "mean return", "difference [95 %, Welch]"]
    return "\n\n".join([table(head, rows), how])


WRITERS = {"learning": ("adopt_{}", learning), "overhead": ("overhead_{}", overhead), "parts": ("adopt_parts", parts)}


def render() -> None:
    for library in LIBRARIES:
        path = PAGES / f"{library}.md"
        page = path.read_text()
        for part, (file, write) in WRITERS.items():
            stored = RESULTS / f"{file.format(library)}.json"
            text = write(library, json.loads(stored.read_text())) if stored.exists() else "Not yet measured."
            block = re.compile(f"(<!-- {part}, generated -->\n).*?(\n<!-- end -->)", re.DOTALL)
            page = block.sub(lambda match, text=text: f"{match[1]}\n{text}\n{match[2]}", page)
        path.write_text(page)
