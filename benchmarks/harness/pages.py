"""Generated blocks of the documentation.

A block begins with `<!-- NAME, generated -->` and ends with `<!-- end -->`; its text is made from stored results.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from benchmarks.harness.results import ROOT, Benchmark, load

DOCS = ROOT / "docs"
BLOCK = re.compile(r"<!-- ([\w-]+), generated -->\n.*?\n<!-- end -->", re.DOTALL)


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Markdown; the first column is aligned left, the others right."""
    head = list(head)
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def measured_on(machine: Mapping[str, object]) -> str:
    return "Measured on: " + ", ".join(f"{name} {value}" for name, value in machine.items()) + "."


def render(benchmarks: Mapping[str, Benchmark], docs: Path = DOCS, names: Collection[str] = ()) -> None:
    """Rewrite the blocks and figures of the named benchmarks (all, if none is named) in a folder of pages."""
    blocks: dict[str, str] = {}
    for name in names or benchmarks:
        blocks |= texts(name, benchmarks[name])
        for figure, draw in benchmarks[name].figures.items():
            draw(load(benchmarks[name].file), docs / figure)
    for page in docs.rglob("*.md"):
        page.write_text(_filled(page.read_text(), blocks))


def texts(name: str, benchmark: Benchmark) -> dict[str, str]:
    """The blocks of a stored result. The last one says how to measure it again."""
    result = load(benchmark.file)
    if result is None:
        return dict.fromkeys(benchmark.blocks, "Not yet measured.")
    made = {block: write(result) for block, write in benchmark.blocks.items()}
    for last in [*made][-1:]:
        made[last] += f"\n\n`python -m benchmarks run {name}`"
    return made


def _filled(page: str, blocks: Mapping[str, str]) -> str:
    def fill(match: re.Match[str]) -> str:
        name = match[1]
        return f"<!-- {name}, generated -->\n\n{blocks[name]}\n\n<!-- end -->" if name in blocks else match[0]

    return BLOCK.sub(fill, page)
