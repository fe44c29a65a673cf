"""A self-contained HTML page with tables and figures."""

from __future__ import annotations

import html
import json
from pathlib import Path

from crystalrl.report import figures, text
from crystalrl.report.text import Grid
from crystalrl.study.analysis import Results, load_results

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
    """The whole page: setup and main results, results over time, tests and further metrics."""
    title = html.escape(results.table.title or str(results.table.suite))
    head = f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title><style>{STYLE}</style>'
    foot = f"<footer>{html.escape(', '.join(f'{k} {v}' for k, v in versions.items()))}</footer>"
    return "\n".join(
        [head, f"<h1>{title}</h1>", *_overview(results), *_over_time(results), *_further(results), foot, "</html>\n"]
    )


def _overview(results: Results) -> list[str]:
    spec, count = next(iter(results.table.rows.values())), len(results.tasks)
    again = "" if len(set(results.tasks)) == count else "; the last ones redefine earlier tasks"
    room = f"{spec.budget_mb:g} MB" if spec.budget_mb else f"{spec.capacity:,} experiences"
    own = results.rows[0].stage_steps
    steps = " to ".join(f"{each:,}" for each in dict.fromkeys((min(own), max(own))))
    setup = f"{count} tasks in sequence, {steps} steps each{again}. The memory holds {room}. "
    return [
        f"<p>{html.escape(setup + results.suite_note)}</p>",
        f"<p class=seen>{html.escape(text.headline(results))}</p>",
        figures.interval_figure(results),
        _grid(text.main_table(results)),
        "<p>Mean over seeds and 95 % interval (bootstrap over seeds).</p>" + _glossary(results, text.SHORT),
        "<h2>Share of learners and tasks above each score</h2>" + figures.profile_figure(results),
        "<p>Higher is better; shaded areas are 95 % intervals.</p>",
        "<h2>Methods compared</h2>" + _grid(text.design_table(results), "words"),
    ]


def _over_time(results: Results) -> list[str]:
    phases = figures.phase_figure(results)
    return [
        "<h2>Score on all tasks so far, after each task</h2>" + figures.course_figure(results),
        "<p>Mean score on all tasks learnt so far; the shaded area contains the middle half of the seeds.</p>",
        "<h2>The learning matrix</h2>" + figures.matrix_figure(results),
        "<p>Row k shows the score on every task after k tasks were learnt. A bright area below the diagonal means that "
        "nothing was forgotten; above the diagonal are tasks that were not learnt yet.</p>",
        "<h2>Learning each task</h2>" + figures.curve_figure(results),
        "<p>Score on the current task: a memory that protects old tasks too strongly learns new ones late or not at "
        "all.</p>",
        "<h2>The memory’s phases over time</h2>" + phases if phases else "",
        "<p>Experiences start as liquid, become glass as they prove useful, then crystal.</p>" if phases else "",
    ]


def _further(results: Results) -> list[str]:
    tuned = text.tuning_table(results)
    tests = (
        f"<p>{html.escape(text.family(results))} Welch’s test; Cohen’s d and Hedges’ g are differences in pooled "
        "standard deviations; P(better) is the probability that a learner of the reference beats one of the row.</p>"
    )
    sensitive, orders = text.sensitivity_table(results), text.order_table(results)
    varied = (
        "<p>sd over orders: standard deviation over the orders of one seed, averaged over seeds; then the components "
        "of order, seed and rest; p: test of equal means of all orders.</p>"
    )
    chosen = "<p>◂ was chosen on the tuning seeds only.</p>"
    return [
        "<h2>Tests</h2>" + _grid(text.comparison_table(results)) + tests if len(results.rows) > 1 else "",
        "<h2>One setting at a time</h2>" + _grid(sensitive) if sensitive.lines else "",
        "<h2>Task orders</h2>" + _grid(orders) + varied if orders.lines else "",
        "<h2>All values tried</h2>" + _grid(tuned) + chosen if tuned.lines else "",
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
    entries = [f"<dt>{name}</dt><dd>{html.escape(text.DEFINITIONS[name])}</dd>" for name in shown]
    return "<dl>" + "".join(entries) + "</dl>"
