"""`crystalrl inspect`: the inside of memories."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from crystalrl.cli.live import serve
from crystalrl.cli.pages import Wanted
from crystalrl.report.export import chosen, export_charts, latex
from crystalrl.report.inspect_page import all_charts, inspection_page, tables, words
from crystalrl.study.inspection import Inspected, inspect_memory, inspect_run
from crystalrl.study.store import result_folders


def inspect_command(path: Path, console: Console, wanted: Wanted, row: str, lane: int) -> None:
    """`crystalrl inspect`."""
    if wanted.live:
        serve(lambda address: live_inspection(path, row, lane, address), [path], console)
        return
    found, problems = _found(path, row, lane)
    _print(found, problems, console)
    where = path if path.is_dir() else path.parent
    if wanted.form == "html":
        out = wanted.out or where / "inspect.html"
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(inspection_page(found, path.name, problems), encoding="utf-8")
        console.print(f"Page: {out}", highlight=False)
    else:
        _export(found, wanted, wanted.out or where / f"inspect-{wanted.form}", console)


def _found(path: Path, row: str, lane: int) -> tuple[list[Inspected], list[str]]:
    if not path.is_dir():
        return [inspect_memory(path, lane)], []
    every, refused = [], list[str]()
    for folder in (folders := result_folders(path)):
        try:
            every.append(inspect_run(folder, row))
        except (ValueError, OSError) as error:
            if len(folders) == 1:
                raise
            refused.append(str(error) if str(folder) in str(error) else f"{folder}: {error}")
    if not every:
        raise ValueError("; ".join(refused))
    problems = [problem for _, problems in every for problem in problems]
    return [one for found, _ in every for one in found], [*problems, *refused]


def live_inspection(path: Path, row: str, lane: int, address: str) -> str:
    """The page as it is now; address: URL of its updates."""
    found, problems = _found(path, row, lane)
    return inspection_page(found, path.name, problems, address)


def _print(found: Sequence[Inspected], problems: Sequence[str], console: Console) -> None:
    for one in found:
        console.print(f"[bold]{escape(one.name)}[/bold]")
        for sentence in words(one):
            console.print(sentence, highlight=False, markup=False)
    for problem in (*(warning for one in found for warning in one.warnings), *problems):
        console.print(f"[yellow]warning[/yellow] {escape(problem)}", highlight=False, soft_wrap=True)
    if not found:
        console.print("No memory with phases has been recorded here yet.", highlight=False)


def _export(found: Sequence[Inspected], wanted: Wanted, out: Path, console: Console) -> None:
    """Charts in a folder for each memory, or the tables of all in one file."""
    if wanted.form in ("md", "tex"):
        grids = [(one.name, title, grid) for one in found for title, grid in tables(one).items()]
        made = [grid.markdown() if wanted.form == "md" else latex(grid) for _, _, grid in grids]
        heads = [f"{'##' if wanted.form == 'md' else '%'} {name}: {title}\n" for name, title, _ in grids]
        path = out if out.suffix else out.with_name(f"inspect.{wanted.form}")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(f"{head}\n{grid}" for head, grid in zip(heads, made, strict=True)), encoding="utf-8")
        console.print(f"Written: {path}", highlight=False)
        return
    for one in found:
        place = out / "".join(letter if letter.isalnum() else "-" for letter in one.name) if len(found) > 1 else out
        charts = chosen(all_charts(one)[0], wanted.charts)
        console.print(f"Written: {len(export_charts(charts, wanted.form, place))} files in {place}", highlight=False)
