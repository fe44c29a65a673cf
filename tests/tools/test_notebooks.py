"""The tutorials: each notebook is the execution of its file."""

import ast
import re
import shlex
import sys
from importlib import metadata
from pathlib import Path

import nbformat
import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tools.notebooks import SOURCES, TUTORIALS, cells, execute, joined, notebook

FILES = sorted(SOURCES.glob("*.py"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_notebook_holds_the_cells_of_its_file_executed_without_error(path: Path) -> None:
    stored = nbformat.read(TUTORIALS / f"{path.stem}.ipynb", 4)
    made = notebook(path.read_text())
    assert [(cell.cell_type, cell.source) for cell in stored.cells] == [(c.cell_type, c.source) for c in made.cells]
    code = [cell for cell in stored.cells if cell.cell_type == "code"]
    assert all(cell.execution_count for cell in code)
    kinds = [output.output_type for cell in code for output in cell.outputs]
    assert "error" not in kinds
    printed = "".join(str(output.get("text", "")) for cell in code for output in cell.outputs)
    assert printed
    assert "\x1b" not in printed
    assert "site-packages" not in printed  # a warning of another library, with a path of this machine


def installed_by(*lines: str) -> set[str]:
    """The distributions that `pip install` brings with these requirements."""
    found: set[str] = set()
    waiting = [Requirement(line) for line in lines]
    seen = set()
    while waiting:
        wanted = waiting.pop()
        name, extras = canonicalize_name(wanted.name), wanted.extras or {""}
        if (name, frozenset(extras)) in seen:
            continue
        seen.add((name, frozenset(extras)))
        found.add(name)
        needs = map(Requirement, metadata.requires(name) or ())
        waiting += [r for r in needs if r.marker is None or any(r.marker.evaluate({"extra": e}) for e in extras)]
    return found


def imported(source: str) -> set[str]:
    """The packages outside the standard library that a program imports."""
    nodes = list(ast.walk(ast.parse(source)))
    names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    names |= {str(node.module) for node in nodes if isinstance(node, ast.ImportFrom)}
    return {name.partition(".")[0] for name in names} - sys.stdlib_module_names


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_tutorial_says_what_to_install_for_all_that_it_imports(path: Path) -> None:
    (line,) = re.findall(r"`pip install ([^`]+)`", " ".join(cells(path.read_text())[0][1].split()))
    given = installed_by(*shlex.split(line))
    homes = {**metadata.packages_distributions(), "crystalrl": ["crystalrl"]}
    assert {
        name for name in imported(path.read_text()) if not given & set(map(canonicalize_name, homes[name]))
    } == set()


def test_every_notebook_has_its_file() -> None:
    assert [path.stem for path in FILES] == sorted(path.stem for path in TUTORIALS.glob("*.ipynb"))


def test_text_code_and_commands_are_told_apart() -> None:
    source = "# %% [markdown]\n# # Title\n#\n# Text.\n\n# %%\nx = 1\n\n\n# %%\n# !crystalrl list\n# a remark\n"
    assert cells(source) == [
        ("markdown", "# Title\n\nText."),
        ("code", "x = 1"),
        ("code", "!crystalrl list\n# a remark"),
    ]


def test_what_is_printed_in_pieces_is_joined_without_control_sequences() -> None:
    pieces = [nbformat.v4.new_output("stream", name="stdout", text=text) for text in ("\x1b[1ma", "b\x1b[0m\n")]
    other = nbformat.v4.new_output("stream", name="stderr", text="c")
    assert [(output.name, output.text) for output in joined([*pieces, other])] == [("stdout", "ab\n"), ("stderr", "c")]


def test_a_notebook_is_executed_with_its_outputs(tmp_path: Path) -> None:
    (tmp_path / "small.py").write_text("# %%\nprint(6 * 7)\n\n# %%\nopen('made.txt', 'w').close()\n")
    first, _ = execute(tmp_path / "small.py", tmp_path).cells
    assert first.outputs[0].text == "42\n"
    assert (tmp_path / "made.txt").exists()


@pytest.mark.slow
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_tutorial_runs_to_its_end(path: Path, tmp_path: Path) -> None:
    made = execute(path, tmp_path)
    assert all(cell.execution_count for cell in made.cells if cell.cell_type == "code")
