"""Results as tables in the terminal."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from crystalrl.report import text
from crystalrl.report.origin import incomplete
from crystalrl.report.text import Grid
from crystalrl.study.analysis import Results


def print_results(results: Results, console: Console) -> None:
    """Print the main tables and the headline."""
    console.print(f"\n[bold]{results.table.title or results.table.suite}[/bold]")
    console.print(_rich(text.main_table(results, text.BRIEF)))
    if len(results.rows) > 1:
        console.print(_rich(text.comparison_table(results, brief=True)))
        console.print(text.family(results), highlight=False)
    for grid in (text.sensitivity_table(results), text.order_table(results)):
        if grid.lines:
            console.print(_rich(grid))
    for sentence in (text.headline(results), *incomplete(results)):
        console.print(sentence, highlight=False, markup=False)


def _rich(grid: Grid) -> Table:
    table = Table(*grid.headings)
    for line in grid.lines:
        table.add_row(*line)
    return table
