"""What the commands print about costs."""

from pathlib import Path

import pytest

from crystalrl import cli

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


def test_a_dry_run_of_a_published_benchmark_takes_stored_speeds_and_counts_gpus(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    study = 'suite = "mt50"\nagent = "sac"\nsteps = 1000000\nlanes = 2\n[rows.VR]\nseeds = "0:4"\n'
    (tmp_path / "big.toml").write_text("[defaults]\n" + study)
    cli.main(["study", "big.toml", "--dry-run", "--device", "cpu"])
    out = capsys.readouterr().out
    assert "To do: 1 cells, 200,000,000 environment steps" in out
    assert "Stored speed of metaworld, one H200 with 16 cores: " in out
    assert "GPUs needed to finish within a week: 1." in out
