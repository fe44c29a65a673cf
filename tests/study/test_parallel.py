"""Studies in several processes on one machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from crystalrl.study.parallel import main
from crystalrl.study.store import read
from tests.study.test_search import MORE, trials


@pytest.fixture
def study(tmp_path: Path) -> str:
    path = tmp_path / "study.toml"
    path.write_text(MORE)
    return str(path)


def run(study: str, tmp_path: Path, *more: str) -> int:
    tuned, out = str(tmp_path / "tuned"), str(tmp_path / "out")
    with pytest.raises(SystemExit) as raised:
        main([study, "--tuned", tuned, "--out", out, "--jobs", "2", "--device", "cpu", *more])
    return raised.value.code


@pytest.mark.slow
def test_rows_are_tuned_then_trained_and_a_second_start_does_what_is_left(study: str, tmp_path: Path) -> None:
    assert run(study, tmp_path, "--minutes", "0") == 1
    assert trials(tmp_path / "tuned") == []
    assert run(study, tmp_path) == 0
    assert len(trials(tmp_path / "tuned")) == 6
    assert set(read(tmp_path / "out" / "one", "scores")["method"]) == {"VR", "PER", "EWC"}
    assert run(study, tmp_path, "--minutes", "0") == 0


def test_an_unknown_table_is_one_line_with_status_2_and_starts_nothing(
    study: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(study, tmp_path, "--tables", "two") == 2
    assert "tables" in capsys.readouterr().err  # of this process
    assert [path.name for path in tmp_path.iterdir()] == ["study.toml"]
