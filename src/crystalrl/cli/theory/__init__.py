"""`crystalrl theory …`: show a law, design a memory, check the paper's claims, write the guide."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any

import tyro
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from crystalrl.cli.parsing import parsed
from crystalrl.cli.progress import tracked, waiting
from crystalrl.cli.theory.options import Claims, DesignMemory, Guide, Show
from crystalrl.theory import claims, design, recommend

VERDICT_STYLE = {
    "true": "green",
    "conditional": "yellow",
    "false": "red",
    "unverifiable": "cyan",
    "underspecified": "cyan",
}


def show(options: Show, console: Console) -> None:
    """Print a summary and a plot in the terminal; optionally write a figure."""
    from crystalrl.cli.theory import terminal
    from crystalrl.report import theory_figures

    summary, path, words = terminal.summary(options), terminal.path_plot(options), options.words
    if options.plot is not None:  # all options are checked before anything is printed
        theory_figures.draw_law(options.law, options.c0, options.thresholds, options.end, options.plot)
    console.print(summary)
    console.print(path)
    console.print(words, highlight=False, soft_wrap=True)
    if options.plot is not None:
        console.print(f"wrote {options.plot}")


def design_memory(options: DesignMemory, console: Console) -> None:
    """Print parameters that meet the requirements, and which are not met."""
    from crystalrl.cli.theory import terminal

    if options.preset == "paper":
        console.print(terminal.design_table(design(options.paper)))
    else:
        console.print(terminal.recommended_table(options.needs, recommend(options.needs)))


def check_claims(options: Claims, console: Console) -> None:
    """Print the claims with their evidence, or write them to a page."""
    evidence = claims.with_evidence(options.verdict)
    rows = list(tracked(evidence, "checking claims", console, total=claims.count(options.verdict)))
    if options.write is not None:
        from crystalrl.cli.theory import pages

        options.write.parent.mkdir(parents=True, exist_ok=True)
        options.write.write_text(pages.claims_page(rows))
        console.print(f"wrote {len(rows)} claims to {options.write}")
        return
    table = Table(title="claims of the paper", show_lines=True)
    for heading in ("where", "says", "verdict", "evidence", "instead"):
        table.add_column(heading)
    for _, claim, found in rows:
        verdict = f"[{VERDICT_STYLE[claim.verdict]}]{claim.verdict}[/]"
        table.add_row(escape(claim.place.label), escape(claim.says), verdict, escape(found), escape(claim.instead))
    console.print(table)


def write_guide(options: Guide, console: Console) -> None:
    """Write the guide page and its figures."""
    from crystalrl.cli.theory import pages

    with waiting("Computing the guide", console):
        written = pages.write_guide(options.write)
    for path in written:
        console.print(f"wrote {path}")


COMMANDS: dict[type, Callable[[Any, Console], None]] = {
    Show: show,
    DesignMemory: design_memory,
    Claims: check_claims,
    Guide: write_guide,
}
Choices = (
    Annotated[Show, tyro.conf.subcommand("show"), tyro.conf.OmitArgPrefixes, tyro.conf.SuppressFixed]
    | Annotated[DesignMemory, tyro.conf.subcommand("design"), tyro.conf.OmitArgPrefixes, tyro.conf.SuppressFixed]
    | Annotated[Claims, tyro.conf.subcommand("claims"), tyro.conf.OmitArgPrefixes, tyro.conf.SuppressFixed]
    | Annotated[Guide, tyro.conf.subcommand("guide"), tyro.conf.OmitArgPrefixes, tyro.conf.SuppressFixed]
)


def run_command(words: Sequence[str], console: Console | None = None) -> None:
    """Run the command that the words after `crystalrl theory` describe."""
    chosen = parsed(Choices, words, "crystalrl theory", __doc__ or "")
    COMMANDS[type(chosen)](chosen, console or Console())
