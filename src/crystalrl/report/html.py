"""A self-contained HTML page: tables and interactive charts, with the style and the script inside."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence

from crystalrl.report.chart import Chart, as_json, asset, escape
from crystalrl.report.text import Grid

POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:; connect-src 'self'"
"""What the browser may load: nothing but what is in the page (and, on a live page, its own updates)."""


class Page:
    """Collects the charts and tables of one page, which the script finds by their numbers."""

    def __init__(self) -> None:
        self.charts: list[Chart] = []
        self.parts: list[str] = []
        """Headings of its parts."""
        self._tables = 0

    def heading(self, title: str) -> str:
        """The heading of a part."""
        self.parts.append(title)
        return f'<h2 id="part-{len(self.parts) - 1}">{escape(title)}</h2>'

    def figure(self, chart: Chart) -> str:
        """A chart with its title and what it shows; nothing if it has no data."""
        if chart.empty:
            return ""
        self.charts.append(chart)
        number = len(self.charts) - 1
        return (
            f'<figure id="chart-{number}" data-chart="{number}"><h3>{escape(chart.title)}</h3>'
            f'<div class="plot"></div><div class="tools"></div><p class="about">{escape(chart.about)}</p></figure>'
        )

    def table(self, grid: Grid, rows: Mapping[str, str] | None = None, kind: str = "numbers") -> str:
        """A table that can be sorted, filtered and copied; nothing if it has no lines.

        rows: first word of a line → the row of the study with which it is shown and hidden.
        """
        if not grid.lines:
            return ""
        self._tables += 1
        name, known = f"table-{self._tables}", rows or {}
        head = "<tr>" + "".join(f"<th>{escape(cell)}</th>" for cell in grid.headings) + "</tr>"
        lines = "".join(_line(grid, number, known) for number in range(len(grid.lines)))
        search = f'<input type="search" data-filter="{name}" placeholder="filter" aria-label="filter the table">'
        copy = f'<button type="button" data-copy="{name}">copy as markdown</button>'
        tools = f'<div class="tools">{search if len(grid.lines) > 5 else ""}{copy}</div>'
        inside = f'<table id="{name}" class="{kind}" data-sort><thead>{head}</thead><tbody>{lines}</tbody></table>'
        return f'<div class="wide" tabindex="0" role="region" aria-label="table">{inside}</div>{tools}'

    def copied(self, text: str) -> str:
        """Text to copy, such as BibTeX."""
        self._tables += 1
        name = f"table-{self._tables}"
        button = f'<button type="button" data-copy="{name}">copy</button>'
        return f'<pre id="{name}">{escape(text)}</pre><div class="tools">{button}</div>'

    def document(self, title: str, body: Sequence[str], live: str = "") -> str:
        """The whole page. live: address of updates, of a page that follows a run."""
        head = (
            f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
            '<meta name="viewport" content="width=device-width, initial-scale=1">'
            f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
            f"<style>{asset('page.css')}</style></head>"
        )
        follow = f' data-live="{escape(live)}"' if live else ""
        top = '<header><div class="tools"><button type="button" class="theme">light or dark</button></div></header>'
        data = as_json([chart.spec() for chart in self.charts])
        script = f'<script type="application/json" class="charts">{data}</script><script>{asset("page.js")}</script>'
        inside = "\n".join(part for part in body if part)
        return f'{head}<body class="crystalrl"{follow}>{top}<main>\n{inside}\n</main>{script}</body></html>\n'


def _line(grid: Grid, number: int, known: Mapping[str, str]) -> str:
    cells = grid.lines[number]
    mine = f' data-row="{escape(known[cells[0]])}"' if cells[0] in known else ""
    inside = "".join(f"<td{_best(grid, number, place)}>{escape(cell)}</td>" for place, cell in enumerate(cells))
    return f"<tr{mine}>{inside}</tr>"


def _best(grid: Grid, line: int, column: int) -> str:
    return ' class="best"' if (line, column) in grid.best else ""


def messages(texts: Iterable[str]) -> str:
    """Paragraphs about what is missing or could not be read."""
    return "".join(f'<p class="message">{escape(text)}</p>' for text in texts)


def contents(kind: str, names: Sequence[str], first: int = 0) -> str:
    """Links to parts, studies or charts of a page, whose numbers begin at `first`."""
    return links((f"{kind}-{number}", name) for number, name in enumerate(names, first))


def links(named: Iterable[tuple[str, str]]) -> str:
    """Links to places of a page, by their ids."""
    inside = "".join(f'<a href="#{place}">{escape(name)}</a>' for place, name in named)
    return f'<nav aria-label="contents">{inside}</nav>'


def row_switches(names: Sequence[str]) -> str:
    """A box for every row, which shows and hides it in all tables and charts of its study."""
    boxes = "".join(
        f'<label style="color:var(--r{place % 10})"><input type="checkbox" checked data-row="{escape(name)}">'
        f'<i class="dash-{min(place // 10, 2)}"></i>'
        f'<span style="color:var(--fg)">{escape(name)}</span></label>'
        for place, name in enumerate(names)
    )
    inside = f'<button type="button" data-all>all or none</button>{boxes}'
    return f'<div class="rows" role="group" aria-label="rows shown">{inside}</div>'


def study(number: int, names: Sequence[str], parts: Iterable[str]) -> str:
    """A section whose rows have their own switches."""
    rows = escape(json.dumps(list(names), ensure_ascii=False))
    return f'<section data-study="{number}" data-rows="{rows}">' + "\n".join(p for p in parts if p) + "</section>"


def definitions(entries: Iterable[tuple[str, str]]) -> str:
    """Words and what they mean."""
    inside = "".join(f"<dt>{escape(word)}</dt><dd>{escape(meaning)}</dd>" for word, meaning in entries)
    return f"<dl>{inside}</dl>" if inside else ""
