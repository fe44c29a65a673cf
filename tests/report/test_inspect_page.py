"""The page of a memory."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from crystalrl import CrystalParams
from crystalrl.report.inspect_page import (
    COVERING,
    LATER,
    NO_CRYSTALS,
    ONE_MOMENT,
    being_forgotten,
    inspection_page,
    lacking,
    settings,
    tables,
    words,
)
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


def test_links_lead_to_charts_tables_and_words(ran: Path) -> None:
    (one,), _ = inspect_run(ran)
    page = inspection_page([one, replace(one, name="another")], "two", live="/events")
    links = re.findall(r'<a href="#([^"]*)">([^<]*)</a>', page)
    assert links[0] == ("memory-0", one.name)
    assert [name for _, name in links].count("How well the crystals cover the stored states") == 2
    assert all(page.count(f' id="{place}"') == 1 for place, _ in links)


def test_the_page_gives_the_bound_for_a_known_lipschitz_constant(ran: Path) -> None:
    (one,), _ = inspect_run(ran)
    bound = tables(one, 2.0)[COVERING].grid.lines[-1][1]
    assert f"with your L = 2, ε = 0 and γ = 0.95</td><td>{bound}</td>" in inspection_page(
        [one], "run", (), "/events", 2.0
    )
    assert "with L = this slope" in inspection_page([one], "run", live="/events")


def test_a_run_in_its_first_task_says_what_will_be_recorded(ran: Path) -> None:
    (one,), _ = inspect_run(ran)
    assert one.memory is not None
    first = {name: column[:2] for name, column in one.memory.items()}
    young = replace(one, memory=first, contents=None)
    assert lacking(young) == [f"Recorded when the first task ends: {LATER['contents']}."]
    assert lacking(replace(young, followed=None))[1] == f"No data that can be read: {LATER['followed']}."
    assert lacking(one) == []


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
    assert lacking(one) == [ONE_MOMENT, NO_CRYSTALS]
    assert words(one) == ["It holds 60 experiences in 64 slots: 60 liquid, 0 glass, 0 crystal."]
    part = inspect_memory(tmp_path / "memory.safetensors", most=30)
    assert words(part) == ["It holds 60 experiences in 64 slots: about 60 liquid, 0 glass, 0 crystal."]
