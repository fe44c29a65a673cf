"""The page of documentation."""

from pathlib import Path

import pytest

from crystalrl import cli
from crystalrl.report.markdown import write_page
from crystalrl.study.__main__ import main
from tests.study.test_main import STUDY


def test_stored_results_become_a_page_of_documentation(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "small.toml").write_text(STUDY)
    main([str(tmp_path / "small.toml"), "--out", str(tmp_path / "out"), "--device", "cpu"])
    page = tmp_path / "docs" / "evidence.md"
    cli.main(["report", str(tmp_path / "out"), "--docs", str(page)])
    text = page.read_text()
    for part in ("| before | adapted | AP |", "| Welch p | Holm p |", "Hedges’ g", "◂", "AP, tuning seeds"):
        assert part in text
    assert write_page([tmp_path / "out"], page, "again").read_text().count("\n") == text.count("\n")
