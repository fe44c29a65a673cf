"""Results for all reports."""

from pathlib import Path

import pytest

from tests.made_up_results import write_results


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A results folder with made-up scores."""
    return write_results(tmp_path / "out")
