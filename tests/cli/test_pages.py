"""`crystalrl report`."""

from pathlib import Path

import pytest

from crystalrl import cli
from tests.made_up_results import write_results


def test_several_studies_get_their_pages_and_one_together(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folders = [write_results(tmp_path / "all" / name) for name in ("one", "two")]
    cli.main(["report", *map(str, folders)])
    said = capsys.readouterr().out.replace("\n", "")
    for path in (*(folder / "report.html" for folder in folders), tmp_path / "all" / "report.html"):
        assert str(path) in said
        assert path.exists()
    assert "Side by side" in (tmp_path / "all" / "report.html").read_text()


@pytest.mark.parametrize(("form", "name"), [("md", "report.md"), ("tex", "report.tex"), ("csv", "report-csv")])
def test_a_report_in_another_format(form: str, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write_results(tmp_path / "out")
    cli.main(["report", str(folder), "--format", form])
    assert "Written: " in capsys.readouterr().out
    assert (folder / name).exists()
    assert not (folder / "report.html").exists()
    cli.main(["report", str(folder), "--format", form, "--out", str(tmp_path / "mine" / name)])
    assert (tmp_path / "mine" / name).exists()


@pytest.mark.parametrize("form", ["html", "md", "tex"])
def test_several_studies_make_one_file(form: str, tmp_path: Path) -> None:
    folders = [write_results(tmp_path / "all" / name) for name in ("one", "two")]
    out = tmp_path / f"both.{form}"
    cli.main(["report", *map(str, folders), "--format", form, "-o", str(out)])
    assert out.read_text().count("@software{") == {"html": 2, "md": 2, "tex": 0}[form]
    assert out.read_text().count("Cohen’s d" if form != "tex" else "Cohen's d") >= 2


def test_a_report_can_also_draw_its_figure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, path = write_results(tmp_path / "out"), tmp_path / "figures" / "rows.svg"
    cli.main(["report", str(folder), "--figure", str(path)])
    assert "Figure: " in capsys.readouterr().out
    assert "<svg " in path.read_text()


def test_a_damaged_study_is_reported_with_a_warning(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write_results(tmp_path / "out")
    next((folder / "curves.parquet").iterdir()).write_bytes(b"damaged")
    cli.main(["report", str(folder)])
    said = capsys.readouterr().out
    assert "warning" in said
    assert "Full report" in said


def test_no_folder_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["report"])
    assert "folders: wanted at least one folder of results, got none" in capsys.readouterr().err


def test_a_figure_that_is_refused_leaves_no_report_behind(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write_results(tmp_path / "out")
    before = sorted(folder.rglob("*"))
    with pytest.raises(SystemExit, match="2"):
        cli.main(["report", str(folder), "--figure", str(tmp_path / "rows.jpg")])
    assert "figure: wanted a file that ends in .svg or .png, got 'rows.jpg'" in capsys.readouterr().err
    assert sorted(folder.rglob("*")) == before
