"""Parts stay apart: no function needs a whole crystal memory, and no test replaces the globals of a module."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).parent
SOURCE = TESTS.parent / "src"


def takers(tree: ast.AST, kind: str) -> Iterator[str]:
    """Functions with an argument that is annotated with this class."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            given = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
            if any(each.annotation is not None and kind in ast.unparse(each.annotation) for each in given):
                yield node.name


def modules_of(tree: ast.AST) -> set[str]:
    """Names that stand for modules of the package."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {each.asname for each in node.names if each.name.startswith("crystalrl.") and each.asname}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("crystalrl"):
            place = SOURCE.joinpath(*(node.module or "").split("."))
            modules = [
                each for each in node.names if (place / f"{each.name}.py").exists() or (place / each.name).is_dir()
            ]
            found |= {each.asname or each.name for each in modules}
    return found


def patched(tree: ast.AST) -> Iterator[str]:
    """What is set in a module of the package, by `setattr` or by an assignment."""
    modules = modules_of(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("setattr") and node.args:
            target = ast.unparse(node.args[0]).strip("'\"")
            if target in modules or target.startswith("crystalrl."):
                yield ast.unparse(node)
        elif isinstance(node, ast.Assign):
            yield from (ast.unparse(each) for each in node.targets if ast.unparse(each).rpartition(".")[0] in modules)


def test_no_function_takes_a_crystal_memory() -> None:
    assert list(takers(ast.parse("def f(memory: CrystalMemory | None): ..."), "CrystalMemory")) == ["f"]
    for path in SOURCE.rglob("*.py"):
        assert not list(takers(ast.parse(path.read_text()), "CrystalMemory")), path


def test_no_test_patches_a_global_of_a_module() -> None:
    example = "from crystalrl.memory.storage import pack\nmonkeypatch.setattr(pack, 'LIMIT', 1)\npack.LIMIT = 2"
    assert len(list(patched(ast.parse(example)))) == 2
    for path in TESTS.rglob("*.py"):
        assert not list(patched(ast.parse(path.read_text()))), path
