"""`crystalrl inspect`: the inside of memories."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from crystalrl.cli.live import serve
from crystalrl.cli.pages import Wanted
from crystalrl.cli.progress import waiting
from crystalrl.report.covering import known_lipschitz
from crystalrl.report.export import chosen, export_charts, latex
from crystalrl.report.inspect_page import NOTHING, all_charts, inspection_page, tables, words
from crystalrl.report.text import Noted
from crystalrl.study.inspection import Inspected, inspect_memory, inspect_run
from crystalrl.study.store import result_folders


@dataclass(frozen=True)
class Chosen:
    """What to inspect, and how."""

    path: Path
    row: str = ""
    lane: int = 0
    lipschitz: float | None = None
    """Of the true values, per unit of the observation; None: not known."""


def inspect_command(which: Chosen, console: Console, wanted: Wanted) -> None:
    """`crystalrl inspect`."""
    path, lipschitz = which.path, known_lipschitz(which.lipschitz)  # refused before anything is drawn
    if wanted.live:
        serve(lambda address: live_inspection(which, address), [path], console)
        return
    found, problems = _found(which)
    _print(found, problems, console)
    where = path if path.is_dir() else path.parent
    if wanted.form == "html":
        out = wanted.out or where / "inspect.html"
        out.parent.mkdir(parents=True, exist_ok=True)
        with waiting("Drawing maps and charts", console):
            page = inspection_page(found, path.name, problems, lipschitz=lipschitz)
        out.write_text(page, encoding="utf-8")
        console.print(f"Page: {out}", highlight=False)
    else:
        _export(found, lipschitz, wanted, wanted.out or where / f"inspect-{wanted.form}", console)


def _found(which: Chosen) -> tuple[list[Inspected], list[str]]:
    path = which.path
    if not path.is_dir():
        return [inspect_memory(path, which.lane)], []
    every, refused = [], list[str]()
    for folder in (folders := result_folders(path)):
        try:
            every.append(inspect_run(folder, which.row))
        except (ValueError, OSError) as error:
            if len(folders) == 1:
                raise
            refused.append(str(error) if str(folder) in str(error) else f"{folder}: {error}")
    if not every:
        raise ValueError("; ".join(refused))
    problems = [problem for _, problems in every for problem in problems]
    return [one for found, _ in every for one in found], [*problems, *refused]


def live_inspection(which: Chosen, address: str) -> str:
    """The page as it is now; address: URL of its updates."""
    found, problems = _found(which)
    return inspection_page(found, which.path.name, problems, address, which.lipschitz)


def _print(found: Sequence[Inspected], problems: Sequence[str], console: Console) -> None:
    for one in found:
        console.print(f"[bold]{escape(one.name)}[/bold]")
        for sentence in words(one):
            console.print(sentence, highlight=False, markup=False)
    for problem in (*(warning for one in found for warning in one.warnings), *problems):
        console.print(f"[yellow]warning[/yellow] {escape(problem)}", highlight=False, soft_wrap=True)
    if not found:
        console.print(NOTHING, highlight=False)


def _export(found: Sequence[Inspected], lipschitz: float | None, wanted: Wanted, out: Path, console: Console) -> None:
    """Charts in a folder for each memory, or the tables of all in one file."""
    if wanted.form in ("md", "tex"):
        path = out if out.suffix else out.with_name(f"inspect.{wanted.form}")
        path.parent.mkdir(parents=True, exist_ok=True)
        named = [(f"{one.name}: {title}", table) for one in found for title, table in tables(one, lipschitz).items()]
        path.write_text("\n".join(_written(*each, wanted.form == "tex") for each in named), encoding="utf-8")
        console.print(f"Written: {path}", highlight=False)
        return
    for one in found:
        place = out / "".join(letter if letter.isalnum() else "-" for letter in one.name) if len(found) > 1 else out
        with waiting("Drawing maps and charts", console):
            files = export_charts(chosen(all_charts(one)[0], wanted.charts), wanted.form, place)
        console.print(f"Written: {len(files)} files in {place}", highlight=False)


def _written(title: str, table: Noted, tex: bool) -> str:
    """A table and its notes as markdown or LaTeX."""
    if tex:
        return f"% {title}\n\n{latex(table.grid)}" + "".join(f"% {note}\n" for note in table.notes)
    return f"## {title}\n\n{table.grid.markdown()}" + "".join(f"\n{note}\n" for note in table.notes)
