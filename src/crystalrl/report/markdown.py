"""Stored results as a page of documentation: every number in it comes from the files."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from crystalrl.report import text
from crystalrl.study.analysis import Results, load_results

HEAD = """# Evidence

Written by `{command}` from stored results; do not edit. Every row had the same tasks, steps and slots.

Mean over seeds with the 95 % bootstrap interval. Tests: Welch, adjusted by Holm over the family that a table states;
effect sizes: Cohen’s d and Hedges’ g; P(better): how often a learner of the reference beats one of the row. A row with
listed values was tuned on other seeds than the reported ones; ◂ marks what was chosen there.
Distillation and EWC are told where tasks begin; the memories are not.

{glossary}
"""


def write_page(folders: Sequence[Path], path: Path, command: str) -> Path:
    """Render results folders, in order, into one markdown file."""
    parts = [HEAD.format(command=command, glossary=_glossary(folders))]
    parts += [section(load_results(folder), folder) for folder in folders]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(parts))
    return path


def section(results: Results, folder: Path) -> str:
    """One table with its tests, tuning and origin."""
    versions = json.loads((folder / "versions.json").read_text())
    origin = ", ".join(f"{name} {value}" for name, value in versions.items())
    tuned = text.tuning_table(results)
    parts = [f"## {results.table.title or results.table.suite}\n", text.headline(results) + "\n"]
    parts.append(text.main_table(results).markdown())
    if len(results.rows) > 1:
        parts += [text.comparison_table(results).markdown(), text.family(results) + "\n"]
    for title, grid in (
        ("Each task right after it was learnt → at the end", text.task_table(results)),
        ("One setting at a time", text.sensitivity_table(results)),
        ("Orders of the tasks", text.order_table(results)),
    ):
        if grid.lines:
            parts.append(f"{title}:\n\n{grid.markdown()}")
    if tuned.lines:
        parts.append("Every value tried:\n\n" + tuned.markdown())
    return "\n".join(
        [*parts, f"<sub>{origin}; suite `{results.table.suite}`, settings in `{folder}/spec.toml`</sub>\n"]
    )


def _glossary(folders: Sequence[Path]) -> str:
    shown = {"IQM"} | {name for folder in folders for name in load_results(folder).rows[0].chosen.metrics}
    return "\n".join(f"- **{name}**: {text.HEADINGS[name]}" for name in text.SHORT if name in shown)
