"""The tutorials: each notebook is the execution of its file."""

from pathlib import Path

import nbformat
import pytest

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
