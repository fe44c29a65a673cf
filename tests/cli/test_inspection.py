"""`crystalrl inspect`."""

import sys
from pathlib import Path

import pytest

from crystalrl import cli
from crystalrl.cli.inspection import Chosen, live_inspection
from tests.inspected_run import write_run
from tests.made_up_results import write_results
from tests.study.test_inspection import saved
from tests.study.test_partial import interrupted


@pytest.fixture(autouse=True)
def _without_umap(monkeypatch: pytest.MonkeyPatch) -> None:
    """umap-learn compiles for many seconds."""
    monkeypatch.setitem(sys.modules, "umap", None)


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_run(tmp_path_factory.mktemp("inspect") / "out")


def test_a_run_is_told_in_words_and_shown_on_a_page(ran: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cli.main(["inspect", str(ran)])
    said = capsys.readouterr().out
    assert "crystal, seed 0" in said
    assert "It holds " in said
    assert "Distribution of c in each phase" in (ran / "inspect.html").read_text()


def test_of_several_folders_those_are_shown_that_can_be(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The others are named: a damaged spec, a row that only some have."""
    write_results(tmp_path / "good")
    broken = write_results(tmp_path / "broken")
    (broken / "spec.toml").write_text("rows = [")
    cli.main(["inspect", str(tmp_path), "--row", "anchored"])
    said = capsys.readouterr().out
    assert "anchored, seed 0" in said
    assert f"warning {broken}/spec.toml: wanted TOML" in said
    with pytest.raises(SystemExit):
        cli.main(["inspect", str(tmp_path), "--row", "nothing"])
    assert "row: wanted one of anchored, EWC, got 'nothing'" in capsys.readouterr().err


@pytest.mark.parametrize(("form", "name"), [("csv", "trajectories.csv"), ("svg", "flows.svg")])
def test_its_charts_become_files(ran: Path, tmp_path: Path, form: str, name: str) -> None:
    cli.main(["inspect", str(ran), "--format", form, "--charts", name.partition(".")[0], "--out", str(tmp_path / form)])
    assert (tmp_path / form / name).stat().st_size > 100


def test_only_some_charts_are_written_on_request(ran: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cli.main(["inspect", str(ran), "--format", "csv", "--charts", "flows,residents", "--out", str(tmp_path / "some")])
    assert {path.name for path in (tmp_path / "some").iterdir()} == {"flows.csv", "residents.csv"}
    with pytest.raises(SystemExit):
        cli.main(["inspect", str(ran), "--format", "csv", "--charts", "flow", "--out", str(tmp_path / "none")])
    assert "did you mean 'flows'?" in capsys.readouterr().err


def test_a_lipschitz_constant_that_the_user_knows_gives_the_bound(ran: Path, tmp_path: Path) -> None:
    for name, words in (("own", []), ("mine", ["--lipschitz", "2"])):
        cli.main(["inspect", str(ran), "--format", "md", "--out", str(tmp_path / f"{name}.md"), *words])
    own, mine = ((tmp_path / f"{name}.md").read_text() for name in ("own", "mine"))
    assert "| distances in standard deviations | number |" in own
    assert "L = this slope" in own
    radius = float(mine.partition("nearest crystal | ")[2].partition(" ")[0])
    bound = float(mine.partition("with your L = 2, ε = 0 and γ = 0.95 | ")[2].partition(" ")[0])
    assert bound == pytest.approx(2 * radius / 0.05, abs=0.02)
    assert "Distances are Euclidean, in the units of the observation." in mine


@pytest.mark.parametrize("live", [[], ["--live"]])
@pytest.mark.parametrize("given", ["0", "-1", "nan", "inf"])
def test_a_lipschitz_constant_must_be_above_zero(
    ran: Path, tmp_path: Path, given: str, live: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        cli.main(["inspect", str(ran), "--lipschitz", given, "--out", str(tmp_path / "page.html"), *live])
    assert f"lipschitz: wanted a finite number above 0, got {given}" in capsys.readouterr().err
    assert not (tmp_path / "page.html").exists()


@pytest.mark.parametrize("form", ["md", "tex"])
def test_its_tables_become_a_file(ran: Path, tmp_path: Path, form: str) -> None:
    cli.main(["inspect", str(ran), "--format", form, "--out", str(tmp_path / f"tables.{form}")])
    assert "paper" in (tmp_path / f"tables.{form}").read_text()


def test_the_file_of_a_memory_gets_a_page_next_to_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    saved(tmp_path / "memory.safetensors")
    cli.main(["inspect", str(tmp_path / "memory.safetensors")])
    assert "It holds 60 experiences in 64 slots" in capsys.readouterr().out
    assert "Map of the experiences: PCA" in (tmp_path / "inspect.html").read_text()


def test_a_live_page_shows_a_run_that_is_not_finished(tmp_path: Path) -> None:
    interrupted(tmp_path, after=1)
    page = live_inspection(Chosen(tmp_path), "/events")
    assert 'data-live="/events"' in page
    assert "during task 1" in page
    assert "during task 2" not in page


def test_what_is_neither_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(SystemExit):
        cli.main(["inspect", str(tmp_path / "notes.txt")])
    assert "notes.txt" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        cli.main(["inspect", str(tmp_path)])
    assert "wanted a folder of results" in capsys.readouterr().err
