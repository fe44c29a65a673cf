"""What the commands print about costs."""

from pathlib import Path

import pytest

from crystalrl import cli
from tests.made_up_results import write_results

STUDY = """
[defaults]
suite = "nav-2"
steps = 160
capacity = 64
batch = 16
episodes = 2
points = 1
[rows.VR]
seeds = "0:3"
[rows.EWC]
method = "ewc"
orders = 2
method_params.strength = [1.0, 10.0]
"""


def test_a_dry_run_counts_what_is_left_and_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "small.toml").write_text(STUDY)
    cli.main(["study", "small.toml", "--dry-run", "--device", "cpu"])
    assert "To do: 5 cells, 2,240 environment steps, 0.0" in capsys.readouterr().out
    assert [path.name for path in tmp_path.iterdir()] == ["small.toml"]
    cli.main(["study", "small.toml", "--device", "cpu"])
    (tmp_path / "runs" / "small" / "scores.parquet").rename(tmp_path / "kept")
    (tmp_path / "runs" / "small" / "scores.parquet").mkdir()
    first, _ = sorted((tmp_path / "kept").iterdir(), key=lambda path: path.stat().st_mtime)
    first.rename(tmp_path / "runs" / "small" / "scores.parquet" / first.name)
    capsys.readouterr()
    cli.main(["study", "small.toml", "--dry-run", "--device", "cpu"])
    assert "To do: 4 cells, 1,280 environment steps" in capsys.readouterr().out


def test_a_report_can_also_draw_its_figure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, path = write_results(tmp_path / "out"), tmp_path / "figures" / "rows.svg"
    cli.main(["report", str(folder), "--figure", str(path)])
    assert "Figure: " in capsys.readouterr().out
    assert path.read_text().startswith("<svg ")


def test_a_figure_that_is_refused_leaves_no_report_behind(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write_results(tmp_path / "out")
    before = sorted(folder.rglob("*"))
    with pytest.raises(SystemExit, match="2"):
        cli.main(["report", str(folder), "--figure", str(tmp_path / "rows.jpg")])
    assert "figure: wanted a file that ends in .svg, got 'rows.jpg'" in capsys.readouterr().err
    assert sorted(folder.rglob("*")) == before
