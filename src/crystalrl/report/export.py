"""A report in other formats: markdown and LaTeX tables, CSV of every chart and table, PNG and SVG of every chart."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from crystalrl.report import origin, static, study_charts, text
from crystalrl.report.chart import Chart
from crystalrl.report.text import Grid
from crystalrl.study.analysis import Results
from crystalrl.study.spec import unknown

Format = Literal["html", "md", "tex", "csv", "png", "svg"]
LATEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"$<$", ">": r"$>$", "–": "--", "−": "$-$", "’": "'",
    "Δ": r"$\Delta$", "µ": r"$\mu$", "κ": r"$\kappa$", "ε": r"$\varepsilon$", "→": r"$\to$", "◂": r"$\triangleleft$",
    "·": r"$\cdot$", "γ": r"$\gamma$", "α": r"$\alpha$", "β": r"$\beta$", "δ": r"$\delta$", "λ": r"$\lambda$",
    "μ": r"$\mu$", "σ": r"$\sigma$", "τ": r"$\tau$", "×": r"$\times$", "≤": r"$\le$", "≥": r"$\ge$",
}  # fmt: skip


def charts(results: Results) -> list[Chart]:
    """All charts of a study that have data."""
    functions = (
        study_charts.average, study_charts.course, study_charts.tasks_over_time, study_charts.learning_matrix,
        study_charts.learning_curves, study_charts.forgetting_by_task, study_charts.phases, study_charts.profiles,
        study_charts.better, study_charts.differences, study_charts.sensitivity,
    )  # fmt: skip
    drawn = (function(results) for function in functions)
    return [chart for chart in drawn if not chart.empty]


def tables(results: Results, folder: Path) -> dict[str, Grid]:
    """All tables of a study that have lines, by title."""
    _, varied = origin.settings(results)
    named = {
        "Results": text.main_table(results),
        "More metrics": text.main_table(results, text.MORE),
        "Tests": text.comparison_table(results) if len(results.rows) > 1 else Grid([], []),
        "Paper": text.paper_table(results),
        "Methods compared": text.design_table(results),
        "One setting at a time": text.sensitivity_table(results),
        "Task orders": text.order_table(results),
        "All values tried": text.tuning_table(results),
        "Settings": varied,
        "Cost": origin.cost_table(results, folder),
    }
    return {title: grid for title, grid in named.items() if grid.lines}


def export(results: Results, folder: Path, form: Format, out: Path, names: Sequence[str] = ()) -> list[Path]:
    """Write a study in one format: a file for md and tex, a folder for csv, png and svg; returns the files.

    names: only these charts, and no tables.
    """
    if form in ("md", "tex"):
        return [write_document([(results, folder)], form, out)]
    drawn = export_charts(chosen(charts(results), names), form, out)
    return drawn + (_csv_tables(tables(results, folder), out) if form == "csv" and not names else [])


def write_document(studies: Sequence[tuple[Results, Path]], form: Format, out: Path) -> Path:
    """Write the tables of studies, given with their folders, to one file of markdown or LaTeX."""
    out.parent.mkdir(parents=True, exist_ok=True)
    text = "\n".join(_document(results, folder, form == "tex") for results, folder in studies)
    out.write_text(text, encoding="utf-8")
    return out


def chosen(given: Sequence[Chart], names: Sequence[str]) -> list[Chart]:
    """The charts with these names; all if there are none."""
    known = {chart.name: chart for chart in given}
    for name in names:
        if name not in known:
            raise ValueError(unknown("charts", name, set(known)))
    return [known[name] for name in names] if names else list(given)


def export_charts(given: Sequence[Chart], form: Format, out: Path) -> list[Path]:
    """Write charts as csv, png or svg files into a folder."""
    out.mkdir(parents=True, exist_ok=True)
    written = []
    for chart in given:
        path = out / f"{chart.name}.{form}"
        if form == "csv":
            path.write_text(chart.csv(), encoding="utf-8")
        else:
            static.write(chart, path)
        written.append(path)
    return written


def _csv_tables(named: dict[str, Grid], out: Path) -> list[Path]:
    written = []
    for title, grid in named.items():
        lines = io.StringIO()
        csv.writer(lines, lineterminator="\n").writerows([grid.headings, *grid.lines])
        written.append(out / f"table-{title.lower().replace(' ', '-')}.csv")
        written[-1].write_text(lines.getvalue(), encoding="utf-8")
    return written


def _document(results: Results, folder: Path, tex: bool) -> str:
    title = results.table.title or str(results.table.suite)
    named, said = tables(results, folder), [text.headline(results), *origin.incomplete(results)]
    if not tex:
        parts = [f"# {title}\n", *(f"{sentence}\n" for sentence in said)]
        parts += [f"## {name}\n\n{grid.markdown()}" for name, grid in named.items()]
        return "\n".join([*parts, "## Cite\n", f"```bibtex\n{origin.bibtex(origin.versions(folder))}```\n"])
    head = f"% {title}: needs \\usepackage{{booktabs}}\n" + "".join(f"% {sentence}\n" for sentence in said)
    return head + "\n".join(f"% {name}\n{latex(grid)}" for name, grid in named.items())


def latex(grid: Grid) -> str:
    """A table for LaTeX with booktabs; the best numbers are bold."""

    def line(cells: Sequence[str], number: int = -1) -> str:
        words = ["".join(LATEX.get(letter, letter) for letter in cell) for cell in cells]
        bold = [rf"\textbf{{{w}}}" if (number, k) in grid.best else w for k, w in enumerate(words)]
        return " & ".join(bold) + r" \\"

    body = [line(cells, number) for number, cells in enumerate(grid.lines)]
    spec = "l" + "r" * (len(grid.headings) - 1)
    parts = [rf"\begin{{tabular}}{{{spec}}}", r"\toprule", line(grid.headings), r"\midrule", *body, r"\bottomrule"]
    return "\n".join([*parts, r"\end{tabular}"]) + "\n"
