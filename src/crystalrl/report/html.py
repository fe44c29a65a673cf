"""One self-contained page: tables and figures, nothing to download."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path

from crystalrl.report import figures, text
from crystalrl.report.text import Grid
from crystalrl.study.analysis import Results, load_results
from crystalrl.study.registry import SUITE_NOTES

STYLE = """
body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#222}
table{border-collapse:collapse;font-size:.85rem;margin:1rem 0}td,th{padding:.25rem .7rem;text-align:right}
td:first-child,th:first-child{text-align:left}tr:nth-child(even){background:#f4f6f8}th{border-bottom:2px solid #888}
.seen{font-size:1.15rem;font-weight:600}p{max-width:50rem}.words td,.words th{text-align:left}
dl{display:grid;grid-template-columns:max-content 1fr;gap:0 1rem}dd{margin:0}
svg{max-width:100%;height:auto}footer,dl{color:#666;font-size:.8rem}dt{font-weight:600}
"""


def write_report(folder: str | Path) -> Path:
    """Render a results folder to `report.html` inside it."""
    results = load_results(folder)
    path = Path(folder) / "report.html"
    path.write_text(page(results, json.loads((Path(folder) / "versions.json").read_text())))
    return path


def page(results: Results, versions: dict[str, str]) -> str:
    """The whole page: what was asked, what was seen, how it came about, what it rests on."""
    title = html.escape(results.table.title or results.table.suite)
    head = f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title><style>{STYLE}</style>'
    foot = f"<footer>{html.escape(', '.join(f'{k} {v}' for k, v in versions.items()))}</footer>"
    return "\n".join(
        [head, f"<h1>{title}</h1>", *_findings(results), *_course(results), *_grounds(results), foot, "</html>\n"]
    )


def _findings(results: Results) -> list[str]:
    spec, count = next(iter(results.table.rows.values())), len(results.tasks)
    again = "" if len(set(results.tasks)) == count else "; the last of them are earlier tasks with another goal"
    room = f"{spec.budget_mb:g} MB" if spec.budget_mb else f"{spec.capacity:,} experiences"
    kind = re.split("[-:]", results.table.suite)[0]
    asked = f"{count} tasks, one after the other, {spec.steps:,} steps each{again}. The memory holds {room}. "
    return [
        f"<p>{html.escape(asked + SUITE_NOTES[kind])}</p>",
        f"<p class=seen>{html.escape(text.headline(results))}</p>",
        figures.interval_figure(results),
        _grid(text.main_table(results)),
        "<p>Mean over seeds and 95 % interval (bootstrap over seeds).</p>" + _glossary(results, text.SHORT),
        "<h2>Share of learners and tasks above each score</h2>" + figures.profile_figure(results),
        "<p>Higher is better at every score; shades are 95 % intervals.</p>",
        "<h2>Who competes</h2>" + _grid(text.design_table(results), "words"),
    ]


def _course(results: Results) -> list[str]:
    phases = figures.phase_figure(results)
    return [
        "<h2>What is still known after each task</h2>" + figures.course_figure(results),
        "<p>Mean score on all tasks learnt so far; the shade holds the middle half of the seeds.</p>",
        "<h2>The learning matrix</h2>" + figures.matrix_figure(results),
        "<p>Each line is one moment: after so many tasks, how well is every task done? Bright from the diagonal down "
        "means that nothing was forgotten; above it is what had not been learnt yet.</p>",
        "<h2>Learning each task</h2>" + figures.curve_figure(results),
        "<p>Score on the task being learnt: a memory that holds on too firmly would learn late or not at all.</p>",
        "<h2>The memory’s phases over time</h2>" + phases if phases else "",
        "<p>Experiences start liquid, become glass as they prove useful and settle, then crystal.</p>"
        if phases
        else "",
    ]


def _grounds(results: Results) -> list[str]:
    tuned = text.tuning_table(results)
    tests = (
        f"<p>{html.escape(text.family(results))} Welch’s test; Cohen’s d and Hedges’ g are the difference in pooled "
        "deviations; P(better): how often a learner of the reference beats one of the row.</p>"
    )
    sensitive, orders = text.sensitivity_table(results), text.order_table(results)
    varied = "<p>sd over orders: what the order changes for one seed, on average; p: no order is better.</p>"
    chosen = "<p>◂ was chosen, by the tuning seeds alone.</p>"
    return [
        "<h2>Tests</h2>" + _grid(text.comparison_table(results)) + tests if len(results.rows) > 1 else "",
        "<h2>One setting at a time</h2>" + _grid(sensitive) if sensitive.lines else "",
        "<h2>Orders of the tasks</h2>" + _grid(orders) + varied if orders.lines else "",
        "<h2>Every value tried</h2>" + _grid(tuned) + chosen if tuned.lines else "",
        "<h2>More metrics</h2>" + _grid(text.main_table(results, text.MORE)) + _glossary(results, text.MORE),
    ]


def _grid(grid: Grid, kind: str = "numbers") -> str:
    def line(cells: list[str], tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells) + "</tr>"

    return (
        f"<table class={kind}>"
        + line(grid.headings, "th")
        + "".join(line(cells, "td") for cells in grid.lines)
        + "</table>"
    )


def _glossary(results: Results, names: tuple[str, ...]) -> str:
    shown = [name for name in names if name == "IQM" or name in results.rows[0].chosen.metrics]
    return "<dl>" + "".join(f"<dt>{name}</dt><dd>{html.escape(text.HEADINGS[name])}</dd>" for name in shown) + "</dl>"
