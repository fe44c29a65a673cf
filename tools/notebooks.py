"""`python -m tools.notebooks [NAME …]`: executes the tutorials and stores what they print and draw.

A notebook is written as a Python file in examples/tutorials/: text is in comments after `# %% [markdown]`, code after
`# %%`. The .ipynb file in docs/tutorials/ is made from it by executing it, so that both agree.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

ROOT = Path(__file__).parents[1]
TUTORIALS = ROOT / "docs" / "tutorials"
SOURCES = ROOT / "examples" / "tutorials"
PLAIN = {"TTY_COMPATIBLE": "0", "NO_COLOR": "1", "COLUMNS": "100"}
"""Commands print lines, without progress bars or colours."""
CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
CELL = re.compile(r"^# %%( \[markdown\])?\n", re.M)


def cells(source: str) -> list[tuple[str, str]]:
    """(kind, text) of every cell of a Python file."""
    _, *parts = CELL.split(source)
    pairs = zip(parts[::2], parts[1::2], strict=True)
    return [("markdown", _text(body)) if kind else ("code", _code(body)) for kind, body in pairs]


def _code(body: str) -> str:
    """`# !command` in a file is `!command` in a notebook."""
    return re.sub(r"^# !", "!", body.strip(), flags=re.M)


def _text(body: str) -> str:
    return "\n".join(line.removeprefix("#").removeprefix(" ") for line in body.strip().splitlines())


def notebook(source: str) -> Any:
    """The notebook of a Python file, not executed yet."""
    made = nbformat.v4.new_notebook()
    make = {"markdown": nbformat.v4.new_markdown_cell, "code": nbformat.v4.new_code_cell}
    made.cells = [make[kind](text, id=f"cell-{number}") for number, (kind, text) in enumerate(cells(source))]
    made.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return made


def execute(path: Path, folder: Path) -> Any:
    """The notebook of a file with its outputs; it runs in the folder."""
    made = notebook(path.read_text())
    client = NotebookClient(made, timeout=600, kernel_name="python3", resources={"metadata": {"path": str(folder)}})
    # `crystalrl` is the one next to this Python
    search = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    client.execute(env={**os.environ, **PLAIN, "PATH": search})
    for cell in made.cells:
        cell.metadata.pop("execution", None)  # times, which differ in every run
        cell.get("outputs", [])[:] = joined(cell.get("outputs", []))
    return made


def joined(outputs: list[Any]) -> list[Any]:
    """The outputs of a cell; text printed in pieces is joined, without the control sequences of a terminal."""
    kept: list[Any] = []
    for output in outputs:
        if output.output_type == "stream":
            output.text = CONTROL.sub("", output.text).replace("\r", "")
            if kept and kept[-1].output_type == "stream" and kept[-1].name == output.name:
                kept[-1].text += output.text
                continue
        kept.append(output)
    return kept


def main(names: list[str]) -> None:
    """Execute the named notebooks, or all, each in a new folder."""
    from tempfile import TemporaryDirectory

    for path in sorted(SOURCES.glob("*.py")):
        if not names or path.stem in names:
            with TemporaryDirectory() as folder:
                nbformat.write(execute(path, Path(folder)), TUTORIALS / f"{path.stem}.ipynb")
            print(f"wrote {TUTORIALS / path.stem}.ipynb")


if __name__ == "__main__":
    main(sys.argv[1:])
