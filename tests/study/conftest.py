"""One thread: the runs are small, and workers share the cores. Stored runs, with and without pyarrow."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from crystalrl.study.store import Store
from tests.made_up_results import columns


@pytest.fixture(autouse=True, scope="session")
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture
def without_pyarrow(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    return lambda: monkeypatch.setitem(sys.modules, "pyarrow", None)


@pytest.fixture
def both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two runs, one stored as .npz, one as parquet."""
    store = Store(tmp_path / "out", "x = 1\n")
    with monkeypatch.context() as patched:
        patched.setitem(sys.modules, "pyarrow", None)
        store.write("one", columns(0.5, seed=0), "cpu")
    store.write("two", columns(0.25, seed=1), "cpu")
    return tmp_path / "out"
