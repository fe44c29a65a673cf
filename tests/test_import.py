"""What `import crystalrl` imports, and its public names."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import crystalrl

UNWANTED = {
    "numba",
    "triton",
    "llvmlite",
    "faiss",
    "scipy",
    "gymnasium",
    "matplotlib",
    "ray",
    "safetensors",
    "rich",
    "sklearn",
}

LOADED = """
import json, sys
before = set(sys.modules)
def loaded():
    return sorted({name.split(".")[0] for name in set(sys.modules) - before})
import crystalrl
first = loaded()
import numpy, torch
needed = loaded()
from crystalrl import CrystalMemory
print(json.dumps([first, needed, loaded()]))
"""


def test_import_loads_nothing_of_weight_and_a_memory_only_torch_and_numpy() -> None:
    done = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, check=True)
    first, needed, loaded = map(set, json.loads(done.stdout))
    assert first - set(sys.stdlib_module_names) == {"crystalrl"}
    assert {"torch", "numpy", "crystalrl"} <= loaded
    assert not loaded & UNWANTED
    assert loaded - needed <= set(sys.stdlib_module_names)


def test_import_gives_no_warning_and_prints_nothing() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", "import crystalrl"], capture_output=True, text=True, check=True
    )
    assert done.stdout == done.stderr == ""


def test_import_does_not_touch_global_random_state() -> None:
    code = """
import random, numpy as np, torch
def states(): return random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()
random.seed(0); np.random.seed(0); torch.manual_seed(0)
before = states()
from crystalrl import PrioritizedMemory, Transition
memory = PrioritizedMemory(10, obs=(2,), action=2)
memory.add(Transition([0., 0.], 0, 0., [0., 0.], False)); memory.sample(5)
assert states() == before
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_all_is_what_is_documented() -> None:
    assert sorted(crystalrl.__all__) == [
        "Anchor",
        "Batch",
        "CheckpointError",
        "Consolidation",
        "CrystalMemory",
        "CrystalParams",
        "Evaluation",
        "Memory",
        "PrioritizedMemory",
        "ReservoirMemory",
        "Sequence",
        "Task",
        "Transition",
        "UniformMemory",
        "__version__",
        "load_memory",
    ]
    assert all(hasattr(crystalrl, name) for name in crystalrl.__all__)
    assert all(getattr(crystalrl, name).__doc__ for name in crystalrl.__all__ if name != "__version__")
    assert list(crystalrl.__all__) == sorted(crystalrl.__all__)


def test_a_name_that_is_not_there_is_refused() -> None:
    with pytest.raises(AttributeError, match="module 'crystalrl' has no attribute 'Crystal'"):
        crystalrl.Crystal  # noqa: B018
    assert set(crystalrl.__all__) <= set(dir(crystalrl))


def test_version_has_three_numbers() -> None:
    assert len([int(part) for part in crystalrl.__version__.split(".")[:3]]) == 3


def imported(tree: ast.AST, modules: set[str]) -> Iterator[str]:
    """The modules of the package that a module imports, at run time or for its types."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield inner if inner in modules else node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def test_no_module_imports_itself_through_others_not_even_for_its_types() -> None:
    package = Path(crystalrl.__file__).parent
    files = {".".join(path.relative_to(package.parent).with_suffix("").parts): path for path in package.rglob("*.py")}
    files = {name.removesuffix(".__init__"): path for name, path in files.items()}
    known = set(files)
    graph = {name: {*imported(ast.parse(path.read_text()), known)} & known - {name} for name, path in files.items()}
    assert sum(map(len, graph.values())) > 500
    TopologicalSorter(graph).prepare()  # raises for a cycle
