"""The numbers on the pages are those of the stored results: rendering again changes nothing."""

from __future__ import annotations

import re
import shutil
from collections import Counter
from pathlib import Path

import pytest

from benchmarks.harness.pages import BLOCK, render
from benchmarks.registry import BENCHMARKS
from crystalrl.cli import main

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = [page.relative_to(DOCS) for page in sorted(DOCS.rglob("*.md"))]


def emptied(page: str) -> str:
    return BLOCK.sub(lambda block: f"<!-- {block[1]}, generated -->\n\n<!-- end -->", page)


@pytest.fixture(scope="module")
def rendered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the pages, rendered after all generated blocks were emptied."""
    docs = tmp_path_factory.mktemp("rendered") / "docs"
    shutil.copytree(DOCS, docs)
    for page in PAGES:
        (docs / page).write_text(emptied((docs / page).read_text()))
    (docs / "figures" / "sb3-continual.png").unlink()
    render(BENCHMARKS, docs)
    return docs


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_a_page_is_what_the_stored_results_make_it(page: Path, rendered: Path) -> None:
    assert (rendered / page).read_text() == (DOCS / page).read_text()


def test_figures_are_drawn_from_the_stored_results(rendered: Path) -> None:
    for benchmark in BENCHMARKS.values():
        assert all((rendered / figure).exists() and (DOCS / figure).exists() for figure in benchmark.figures)


def test_every_block_is_on_one_page_and_every_marker_names_a_block() -> None:
    markers = Counter(
        name for page in PAGES for name in re.findall(r"<!-- (\S+), generated -->", (DOCS / page).read_text())
    )
    blocks = [name for benchmark in BENCHMARKS.values() for name in benchmark.blocks]
    assert markers == Counter(blocks)


def test_only_the_named_benchmarks_are_rendered(tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text(emptied((DOCS / "interference.md").read_text()))
    render(BENCHMARKS, tmp_path, ["contexts"])
    page = (tmp_path / "page.md").read_text()
    assert "effective number" in page
    assert "flagged, p = .01" not in page


@pytest.mark.slow
@pytest.mark.parametrize(
    ("study", "page"),
    [
        ("default", "default.md"),
        ("nav-evidence", "nav-evidence.md"),
        ("minatar-5", "minatar-5.md"),
        ("baselines", "baselines.md"),
    ],
)
def test_the_evidence_is_what_the_stored_results_say(
    study: str, page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(ROOT / "results" / study, f"results/{study}")
    Path("docs").mkdir()
    shutil.copy(DOCS / page, f"docs/{page}")  # of a page with marks, only what is between them is written
    main(["report", f"results/{study}", "--docs", f"docs/{page}"])
    assert Path("docs", page).read_text() == (DOCS / page).read_text()
