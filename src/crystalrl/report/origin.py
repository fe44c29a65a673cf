"""What was run, where and when: settings of every row, seeds, versions, commit, machine, date, cost."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from crystalrl._version import __version__
from crystalrl.report.text import Grid, number
from crystalrl.study.analysis import Results, Row
from crystalrl.study.provenance import read_runs
from crystalrl.study.spec import SECTIONS
from crystalrl.study.store import stored_parts

MISSING = "not recorded"
RECORDED = {"commit": "commit", "machine": "machine", "finished": "date"}
"""Field of a run's note → what the page calls it."""


def versions(folder: Path) -> dict[str, str]:
    """Versions, device, commit, machine and dates that computed the results; "not recorded" where that is so."""
    try:
        found = json.loads((folder / "versions.json").read_text())
    except (OSError, ValueError):
        found = {}
    named = {str(name): str(value) for name, value in found.items()} if isinstance(found, dict) else {}
    runs = read_runs(folder)
    for field, name in RECORDED.items():
        seen = sorted({str(run[field]) for run in runs if run[field]})
        named[name] = ", ".join(seen if len(seen) < 4 else [seen[0], "…", seen[-1]]) or MISSING
    noted, stored = len({run["key"] for run in runs}), len(stored_parts(folder, "scores", []))
    if 0 < noted < stored:
        named["recorded for"] = f"{noted} of {stored} runs: {', '.join(RECORDED.values())}"
    return named if "crystalrl" in named else {"crystalrl": MISSING, **named}


def incomplete(results: Results) -> list[str]:
    """Rows and seeds that the study names but that no results are stored of, in sentences."""
    said = [f"Rows of this study without results yet: {', '.join(results.missing)}."] if results.missing else []
    seeds = [(row.name, len(row.chosen.seeds), len(row.spec.seeds)) for row in results.rows]
    few = [f"{name} {stored} of {named}" for name, stored, named in seeds if stored < named]
    return said + ([f"Rows with fewer seeds than the study names: {'; '.join(few)}."] if few else [])


def settings(results: Results) -> tuple[list[tuple[str, str]], Grid]:
    """Settings that all rows share, and a table of those that differ; those of memory, method, agent in one column."""
    values = {row.chosen.name: _values(row) for row in results.rows}
    names = dict.fromkeys(name for mine in values.values() for name in mine)
    shared: list[str] = []
    varied: list[str] = []
    for name in names:
        seen = {mine.get(name, "") for mine in values.values()}
        (shared if len(seen) == 1 else varied).append(name)
    first = next(iter(values.values()))
    own = [name for name in varied if "." in name]
    plain = [name for name in varied if "." not in name]
    lines = []
    for row, mine in values.items():
        given = [f"{name} = {mine[name]}" for name in own if name in mine]
        lines.append([row, *(mine[name] for name in plain), *(["; ".join(given)] if own else [])])
    return [(name, first[name]) for name in shared], Grid(["", *plain, *["settings"] * bool(own)], lines * bool(varied))


def _values(row: Row) -> dict[str, str]:
    """All settings of a row, as text; those of its memory, method and agent that it was given."""
    given = {name: value for name, value in asdict(row.spec).items() if name not in ("suite", "seeds", *SECTIONS)}
    for section in SECTIONS:
        given |= {f"{section}.{name}": value for name, value in getattr(row.spec, section).items()}
    return {"seeds": ranges(row.chosen.seeds), **{name: _word(value) for name, value in given.items()}}


def _word(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return ", ".join(map(_word, value))
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def ranges(seeds: Sequence[int]) -> str:
    """Seeds in short, such as 0–31 or 0–3, 7."""
    parts: list[list[int]] = []
    for seed in sorted(seeds):
        if parts and parts[-1][-1] == seed - 1:
            parts[-1].append(seed)
        else:
            parts.append([seed])
    return ", ".join(f"{part[0]}–{part[-1]}" if len(part) > 1 else f"{part[0]}" for part in parts)


def cost_table(results: Results, folder: Path) -> Grid:
    """Memory, and wall-clock time where it was recorded, of one learner of every row; no lines if neither was."""
    runs = read_runs(folder)
    lines = []
    for row in results.rows:
        mine = [run for run in runs if run["cell"] in row.chosen.stored and run["seed"] in row.chosen.seeds]
        steps, time = (sum(values) for values in zip(*map(_time, mine), strict=True)) if mine else (0.0, 0.0)
        known = [f"{time:,.1f}", f"{1e6 * time / steps:,.1f}", _word(max(r["learners"] for r in mine))] if steps else []
        lines.append([row.chosen.name, _megabytes(results.memory, row), *(known or [MISSING] * 3)])
    known_of_any = any(cell != MISSING for line in lines for cell in line[1:])
    lines = lines if known_of_any else []
    return Grid(["", "MB per learner", "s, all learners", "µs per step and learner", "learners in a run"], lines)


def _time(run: Mapping[str, Any]) -> tuple[float, float]:
    """Environment steps of a learner, and its part of the time of its run."""
    return float(run["steps"] or 0), float(run["seconds"] or 0) / run["learners"]


def _megabytes(memory: Mapping[str, Any], row: Row) -> str:
    if not memory:
        return MISSING
    mine = memory["nbytes"][np.isin(memory["cell"].astype(str), row.chosen.stored)]
    return number(float(mine[0]) / 1e6) if len(mine) else MISSING


def bibtex(found: Mapping[str, str]) -> str:
    """An entry for the version that computed the results."""
    version = found.get("crystalrl", __version__)
    commit = f",\n  note    = {{commit {found['commit']}}}" if found.get("commit", MISSING) != MISSING else ""
    year = (found.get("date", "") or "")[:4]
    dated = f",\n  year    = {{{year}}}" if year.isdigit() else ""
    title = "crystalrl: replay memory that crystallizes"
    return (
        f"@software{{crystalrl,\n  title   = {{{title}}},\n  author  = {{{{The crystalrl authors}}}},\n"
        f"  version = {{{version}}}{dated}{commit}\n}}\n"
    )
