"""The page of a memory."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from crystalrl import CrystalParams
from crystalrl.report.inspect_page import LATER, being_forgotten, inspection_page, settings, tables, words
from crystalrl.study.inspection import inspect_memory, inspect_run
from tests.made_up_results import write_results
from tests.report.test_study_page import charts
from tests.study.test_inspection import saved

pytestmark = pytest.mark.usefixtures("without_umap")


def test_the_page_of_a_run_has_all_its_charts(ran: Path) -> None:
    found, problems = inspect_run(ran)
    page = inspection_page(found, "Tiny <run>", problems)
    assert "<h1>Tiny &lt;run&gt;: inside the memory</h1>" in page
    assert set(charts(page)) >= {
        "phases", "distribution", "flows", "residents", "crystals", "turnover", "utility", "contradictions",
        "anchor-error", "trajectories", "map-pca",
    }  # fmt: skip
    assert "How long it takes to crystallize" in page
    assert "How well the crystals cover" in page
    assert "No data that" not in page
    without = inspection_page([replace(found[0], contents=None)], "Tiny", live="/events")
    assert f"No data that can be read: {LATER['contents']}." in without
    assert "residents" not in charts(without)
    live = charts(inspection_page(found, "Tiny", problems, live="/events"))
    assert [name for name in live if name.startswith("map")] == ["map-pca"]


def test_the_settings_of_the_memory_are_shown_those_that_are_not_the_default_first(ran: Path) -> None:
    (one,), _ = inspect_run(ran)
    shown = settings(one.params)
    assert dict(shown)["time_unit"] == "20 (default: None)"
    assert dict(shown)["kappa"] == str(CrystalParams().kappa)
    marked = ["default:" in said for _, said in shown]
    assert marked == sorted(marked, reverse=True)
    assert "<dt>time_unit</dt><dd>20 (default: None)</dd>" in inspection_page([one], "run", live="/events")


def test_words_say_what_the_memory_holds(ran: Path) -> None:
    (one,), _ = inspect_run(ran)
    assert one.memory is not None
    held = [int(one.memory[phase][-1]) for phase in ("liquid", "glass", "crystal")]
    assert words(one)[0] == (
        f"It holds {sum(held)} experiences in 96 slots: {held[0]} liquid, {held[1]} glass, {held[2]} crystal."
    )
    assert being_forgotten(one).startswith("The outputs furthest from their anchors are now those of experiences from")
    assert words(replace(one, warnings=("It is ill.",)))[-1] != "Nothing looks wrong with it at the last consolidation."


def test_older_results_say_what_was_not_recorded(tmp_path: Path) -> None:
    found, problems = inspect_run(write_results(tmp_path / "out"))
    page = inspection_page(found, "old", problems)
    assert f"No data that can be read: {'; '.join(LATER.values())}." in page
    assert "flows" not in charts(page) or charts(page)["flows"]
    assert "No memory with phases" in inspection_page([], "none")


def test_the_page_of_a_file_shows_its_experiences(tmp_path: Path) -> None:
    memory = saved(tmp_path / "memory.safetensors")
    one = inspect_memory(tmp_path / "memory.safetensors")
    drawn = charts(inspection_page([one], "file"))
    assert next(iter(drawn)) == "map-pca"
    np.testing.assert_allclose(drawn["map-pca"]["reward"], memory.experiences()["reward"])
    assert tables(one) == {}  # no crystals yet, nothing followed
    assert words(one) == ["It holds 60 experiences in 64 slots: 60 liquid, 0 glass, 0 crystal."]
    part = inspect_memory(tmp_path / "memory.safetensors", most=30)
    assert words(part) == ["It holds 60 experiences in 64 slots: about 60 liquid, 0 glass, 0 crystal."]
