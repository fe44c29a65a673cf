"""Results for all reports."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from crystalrl.report.study_page import write_report
from tests.inspected_run import write_run
from tests.made_up_results import write_results
from tests.report.browser import browser


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A results folder with made-up scores."""
    return write_results(tmp_path / "out")


@pytest.fixture(scope="session")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A results folder of a real, tiny run with a crystal memory and a prioritized one."""
    return write_run(tmp_path_factory.mktemp("ran") / "out")


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """A browser; the test is skipped where there is none."""
    with browser() as one:
        yield one


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of made-up scores."""
    folder = write_results(tmp_path_factory.mktemp("browser") / "out")
    return write_report([folder], folder / "report.html")


@pytest.fixture
def without_umap(monkeypatch: pytest.MonkeyPatch) -> None:
    """umap-learn compiles for many seconds."""
    monkeypatch.setitem(sys.modules, "umap", None)
