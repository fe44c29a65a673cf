"""`crystalrl report`: pages, tables and figures of stored results."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from crystalrl.cli.live import serve
from crystalrl.report import markdown, static
from crystalrl.report.export import Format, export, write_document
from crystalrl.report.study_charts import average
from crystalrl.report.study_page import Source, page, source, write_page
from crystalrl.report.terminal import print_results
from crystalrl.study.analysis import load_results
from crystalrl.study.store import as_parquet, scored_folders


@dataclass(frozen=True)
class Wanted:
    """What to write, of the options that `report` and `inspect` share."""

    form: Format = "html"
    out: Path | None = None
    """File, or folder for csv, png and svg; None: in the folder of results."""
    live: bool = False
    charts: tuple[str, ...] = ()
    """Names of the charts for csv, png and svg; empty: all."""


def report_command(folders: Sequence[Path], console: Console, wanted: Wanted, docs: Path, figure: Path) -> None:
    """`crystalrl report`; docs and figure may be empty."""
    if not folders:
        raise ValueError("folders: wanted at least one folder of results, got none")
    if wanted.live:
        serve(lambda address: live_page(folders, address), folders, console)
        return
    if figure.name:  # first: a name that is refused leaves no report behind
        draw_figure(folders[0], figure, console)
    show_report(folders, console, wanted)
    if docs.name:
        command = f"crystalrl report {folders[0]} --docs {docs}"
        console.print(f"Tables: {markdown.write_page(scored_folders(folders[0]), docs, command)}", highlight=False)


def live_page(folders: Sequence[Path], address: str) -> str:
    """The page of results folders and of their unfinished runs; address: URL of its updates."""
    inner = [one for folder in folders for one in scored_folders(folder)]
    return page([source(folder) for folder in inner], Path(inner[0]), address)


def show_report(folders: Sequence[Path], console: Console, wanted: Wanted | None = None) -> None:
    """Print the tables of all results folders below these, and write them in a format.

    Each gets its own page; several also get one together.
    """
    wanted = wanted or Wanted()
    form, out = wanted.form, wanted.out
    inner = [one for folder in folders for one in scored_folders(folder)]
    sources = [_shown(folder, console) for folder in inner]
    if form == "html":
        paths = [write_page([one], one.folder / "report.html") for one in sources if out is None]
        if out is not None or len(inner) > 1:
            paths.append(write_page(sources, out or together(folders) / "report.html"))
        for path in paths:
            console.print(f"Full report: {path}", highlight=False)
        return
    studies = [(one.results, one.folder) for one in sources if one.results is not None]
    if out is not None and form in ("md", "tex"):
        console.print(f"Written: {write_document(studies, form, out)}", highlight=False)
        return
    for results, folder in studies:
        written = export(results, folder, form, target := _target(folder, form, out, len(sources) > 1), wanted.charts)
        what = written[0] if len(written) == 1 else f"{len(written)} files in {target}"
        console.print(f"Written: {what}", highlight=False)


def together(folders: Sequence[Path]) -> Path:
    """The folder that holds all these: the folder itself if it is the only one."""
    return folders[0] if len(folders) == 1 else Path(os.path.commonpath([folder.absolute() for folder in folders]))


def _shown(folder: Path, console: Console) -> Source:
    """What can be read from a folder; prints its tables, and what is wrong with it."""
    with suppress(ValueError, OSError):  # the page says which part cannot be read
        as_parquet(folder)
    found = source(folder)
    if found.results is not None:
        print_results(found.results, console)
    problems = found.results.problems if found.results is not None else (found.problem,)
    for problem in problems:
        console.print(f"[yellow]warning[/yellow] {escape(problem)}", highlight=False, soft_wrap=True)
    return found


def _target(folder: Path, form: Format, out: Path | None, several: bool) -> Path:
    if out is None:
        return folder / (f"report.{form}" if form in ("md", "tex") else f"report-{form}")
    return out / folder.name if several else out


def draw_figure(folder: Path, path: Path, console: Console) -> None:
    """Draw the average performance of all rows of one results folder."""
    console.print(f"Figure: {static.write(average(load_results(folder)), path)}", highlight=False)
