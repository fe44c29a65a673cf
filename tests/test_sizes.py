"""No file is long, and few functions are."""

from __future__ import annotations

import ast
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[1]
FOLDERS = ("src", "tests", "tools", "benchmarks")


def lengths(path: Path) -> list[int]:
    """Lines of every function, with its decorators and docstring."""
    functions = [n for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.FunctionDef)]
    return [(n.end_lineno or 0) + 1 - min([n.lineno, *(d.lineno for d in n.decorator_list)]) for n in functions]


def test_no_file_has_more_than_300_lines() -> None:
    files = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")]
    assert len(files) > 500
    assert [path for path in files if len(path.read_text().splitlines()) > 300] == []


def test_nine_of_ten_functions_of_the_package_have_at_most_15_lines() -> None:
    every = [length for path in (ROOT / "src").rglob("*.py") for length in lengths(path)]
    assert len(every) > 2000
    assert np.percentile(every, 90) <= 15
