"""One self-contained page: tables and figures, nothing to download."""

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
svg{max-width:100%;height:auto}footer,dl{color:#666;font-size:.8rem}dt{font-weight:600}dd{margin:0 0 .3rem 1rem}
"""


def write_report(folder: str | Path) -> Path:
    """Render a results folder to `report.html` inside it."""
    results = load_results(folder)
    path = Path(folder) / "report.html"
    path.write_text(page(results, json.loads((Path(folder) / "versions.json").read_text())))
    return path


def page(results: Results, versions: dict[str, str]) -> str:
    """The whole page."""
    tuned = text.tuning_table(results)
    phases = figures.phase_figure(results)
    parts = [
        f"<h1>{html.escape(results.table.title or results.table.suite)}</h1>",
        f"<p>{html.escape(text.headline(results))}</p>",
        _grid(text.main_table(results)),
        "<h2>What is still known after each task</h2>" + figures.course_figure(results),
        "<h2>The learning matrix</h2>" + figures.matrix_figure(results),
        "<h2>Learning each task</h2>" + figures.curve_figure(results),
        "<h2>The memory’s phases over time</h2>" + phases if phases else "",
        "<h2>Tests</h2>" + _grid(text.comparison_table(results)) if len(results.rows) > 1 else "",
        "<h2>Every value tried</h2>" + _grid(tuned) if tuned.lines else "",
        "<h2>More metrics</h2>" + _grid(text.main_table(results, text.MORE)),
        _glossary(),
        f"<footer>{html.escape(', '.join(f'{k} {v}' for k, v in versions.items()))}</footer>",
    ]
    title = html.escape(results.table.title or results.table.suite)
    head = f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title><style>{STYLE}</style>'
    return head + "\n".join(parts) + "</html>\n"


def _grid(grid: Grid) -> str:
    def line(cells: list[str], tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells) + "</tr>"

    return "<table>" + line(grid.headings, "th") + "".join(line(cells, "td") for cells in grid.lines) + "</table>"


def _glossary() -> str:
    terms = "".join(f"<dt>{html.escape(k)}</dt><dd>{html.escape(v)}</dd>" for k, v in text.HEADINGS.items())
    return f"<p>Intervals: 95 %, bootstrap over seeds.</p><dl>{terms}</dl>"
