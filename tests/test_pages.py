"""The numbers on the pages are those of the stored results: rendering again changes nothing."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from benchmarks.harness.pages import BLOCK, render
from benchmarks.registry import BENCHMARKS
from crystalrl.cli import main

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"


def test_the_blocks_of_the_pages_are_what_the_benchmarks_make_of_the_stored_results(tmp_path: Path) -> None:
    shutil.copytree(DOCS, tmp_path, dirs_exist_ok=True)
    render(BENCHMARKS, tmp_path)
    for page in DOCS.rglob("*.md"):
        assert (tmp_path / page.relative_to(DOCS)).read_text() == page.read_text(), page.name


def test_every_block_on_a_page_belongs_to_a_benchmark() -> None:
    known = {block for benchmark in BENCHMARKS.values() for block in benchmark.blocks}
    found = {match[1] for page in DOCS.rglob("*.md") for match in BLOCK.finditer(page.read_text())}
    assert found == known


@pytest.mark.slow
@pytest.mark.parametrize(("study", "page"), [("nav-evidence", "evidence.md"), ("minatar-5", "minatar-5.md")])
def test_the_evidence_is_what_the_stored_results_say(
    study: str, page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(ROOT / "results" / study, f"results/{study}")
    main(["report", f"results/{study}", "--docs", f"docs/{page}"])
    assert Path("docs", page).read_text() == (DOCS / page).read_text()
