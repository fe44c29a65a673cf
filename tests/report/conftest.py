"""Results for all reports."""

from pathlib import Path

import pytest

from tests.inspected_run import write_run
from tests.made_up_results import write_results


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A results folder with made-up scores."""
    return write_results(tmp_path / "out")


@pytest.fixture(scope="session")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A results folder of a real, tiny run with a crystal memory and a prioritized one."""
    return write_run(tmp_path_factory.mktemp("ran") / "out")
