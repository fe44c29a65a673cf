"""What `crystalrl doctor` finds and tests."""

import io
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from rich.console import Console

from crystalrl import UniformMemory, __version__
from crystalrl.cli.doctor import KINDS, check_memory, extras, show_doctor


def said() -> str:
    console = Console(file=io.StringIO(), width=160)
    show_doctor(console)
    written = console.file
    assert isinstance(written, io.StringIO)
    return written.getvalue()


def test_it_names_versions_backend_and_extras_and_every_memory_passes() -> None:
    text = said()
    assert f"crystalrl  {__version__} in " in text
    assert f"PyTorch    {torch.__version__}" in text
    assert "backend    numba on cpu" in text
    assert [f"passed {kind.__name__} on cpu" in text for kind in KINDS] == [True] * 4
    assert text.endswith("All tests passed.\n")


def test_a_selected_backend_is_the_one_it_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CRYSTALRL_BACKEND", "torch")
    text = said()
    assert "backend    torch on cpu" in text
    assert "CRYSTALRL_BACKEND=torch" in text


def test_extras_are_those_of_the_package_with_the_installed_versions() -> None:
    found = extras()
    assert {"fast", "sb3", "study", "theory"} <= set(found)
    assert "dev" not in found
    assert all(found["fast"].values())


class Forgetful(UniformMemory):
    """Draws other experiences once it was saved."""

    def save(self, path: str) -> None:  # type: ignore[override]
        super().save(path)
        self.sample(1)


def test_a_memory_that_does_not_go_on_from_its_file_fails() -> None:
    with pytest.raises(AssertionError, match="draws other experiences"):
        check_memory(Forgetful, torch.device("cpu"))


BASE_ONLY = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"numba", "tyro", "scipy", "matplotlib", "pandas", "statsmodels", "gymnasium"}:
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Blocked())
from crystalrl.cli import main
main(["doctor"])
"""


def test_it_needs_only_the_base_packages(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", BASE_ONLY], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "backend    numpy on cpu" in done.stdout
    assert "pip install 'crystalrl[fast]'" in done.stdout
    assert "All tests passed." in done.stdout
