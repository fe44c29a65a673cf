"""The numbers on the pages are those of the stored results: rendering again changes nothing."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import ModuleType

import pytest

from benchmarks import render, render_interference, render_sb3
from benchmarks.adoption import render as render_adoption
from crystalrl.cli import main

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"


@pytest.mark.parametrize("script", [render, render_interference, render_sb3], ids=lambda script: script.__name__)
def test_a_page_is_what_its_script_makes_of_the_results(
    script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page, copy = script.PAGE, tmp_path / "page.md"
    shutil.copy(page, copy)
    monkeypatch.setattr(script, "PAGE", copy)
    script.main()
    assert copy.read_text() == page.read_text()


def test_the_pages_of_the_libraries_are_what_their_script_makes_of_the_results(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(DOCS / "integrations", tmp_path, dirs_exist_ok=True)
    monkeypatch.setattr(render_adoption, "PAGES", tmp_path)
    render_adoption.render()
    for library in render_adoption.LIBRARIES:
        assert (tmp_path / f"{library}.md").read_text() == (DOCS / "integrations" / f"{library}.md").read_text()


@pytest.mark.slow
@pytest.mark.parametrize(("study", "page"), [("nav-evidence", "evidence.md"), ("minatar-5", "minatar-5.md")])
def test_the_evidence_is_what_the_stored_results_say(
    study: str, page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(ROOT / "results" / study, f"results/{study}")
    main(["report", f"results/{study}", "--docs", f"docs/{page}"])
    assert Path("docs", page).read_text() == (DOCS / page).read_text()
