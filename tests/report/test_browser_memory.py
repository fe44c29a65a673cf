"""Pages of memories, notebooks and live pages in a real browser."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from crystalrl import CrystalMemory, Transition
from crystalrl.report import study_charts
from crystalrl.report.inspect_page import inspection_page
from crystalrl.study.analysis import load_results
from crystalrl.study.inspection import inspect_memory, inspect_run
from tests.cli.test_live import served
from tests.made_up_results import write_results
from tests.report.browser import figure, opened, scrolled


@pytest.mark.usefixtures("without_umap")
def test_a_click_on_a_point_shows_the_experience_as_a_frame(chromium: Any, tmp_path: Path) -> None:
    memory = CrystalMemory(32, obs=(8, 8), obs_dtype=torch.uint8, action=2, seed=0)
    for step in range(30):
        frame = torch.full((8, 8), 8 * step, dtype=torch.uint8)
        memory.add(Transition(frame, step % 2, float(step), frame, False, False))
    memory.save(tmp_path / "memory.safetensors")
    path = tmp_path / "inspect.html"
    path.write_text(inspection_page([inspect_memory(tmp_path / "memory.safetensors")], "file"))
    with opened(chromium, path) as page:
        chart = figure(page, "Map of the experiences: PCA")
        assert chart.locator("circle:not(.hidden)").count() == 30
        chart.locator("circle").first.hover()
        chart.locator("circle").first.click()
        assert chart.locator(".detail").inner_text().startswith("Experience 0")
        assert "not known" in chart.locator(".detail").inner_text()  # the task: this memory has no task ids
        assert chart.locator(".detail img").evaluate("one => one.naturalWidth") == 8
        chart.locator("[data-colour]").select_option("reward")
        assert chart.locator(".scale").inner_text().split() == ["0", "29"]


@pytest.mark.usefixtures("without_umap")
@pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (1400, "light")])
def test_the_page_of_a_memory_fits_every_window(
    chromium: Any, ran: Path, tmp_path: Path, width: int, scheme: str
) -> None:
    found, problems = inspect_run(ran)
    path = tmp_path / "inspect.html"
    path.write_text(inspection_page(found, "run", problems))
    with opened(chromium, path, width=width, scheme=scheme) as page:
        scrolled(page)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.locator("figure[data-chart]").count() == page.locator("figure:has(svg)").count()
        path = figure(page, "Single experiences against the theory").locator("svg").first
        assert path.locator('circle[data-row="measured"]').count() > 2
        assert path.locator('path[data-row="measured"]').count() == 0  # it would lie under the line of the law
        _, *words = figure(page, "Map of the experiences: PCA").locator(".scale span").all_inner_texts()
        assert [phase for phase in ("liquid", "glass", "crystal") if phase in words] == words
        flow = figure(page, "Flow between phases").locator("svg").first
        flow.focus()
        page.keyboard.press("ArrowRight")
        assert "during task 1: liquid → glass: " in page.locator(".tip").inner_text()


def test_two_charts_in_a_notebook_draw_themselves(chromium: Any, tmp_path: Path) -> None:
    results = load_results(write_results(tmp_path / "out"))
    page = chromium.new_page()
    charts = (study_charts.average(results), study_charts.learning_matrix(results))
    page.set_content("<p>notebook</p>" + "".join(chart._repr_html_() for chart in charts))
    first, second = (page.frame_locator("iframe").nth(place) for place in (0, 1))
    first.locator("svg circle").first.wait_for()
    second.locator("svg rect").first.wait_for()
    assert first.locator("svg rect").count() == 0
    page.close()


def test_a_live_page_shows_new_results_by_itself(chromium: Any, tmp_path: Path) -> None:
    folder = write_results(tmp_path / "out")
    with served(folder) as address:
        page = chromium.new_page()
        said: list[str] = []
        page.on("console", lambda message: said.append(message.text))
        page.goto(address)
        assert page.locator("h1").inner_text() == "Made <up>"
        spec = folder / "spec.toml"
        spec.write_text(spec.read_text().replace("Made <up>", "Changed"))
        page.locator("h1", has_text="Changed").wait_for(timeout=20_000)
        page.close()
    assert said == []


def test_a_live_page_keeps_the_place_and_the_choices_of_its_reader(chromium: Any, tmp_path: Path) -> None:
    """Charts are drawn when they come into view: above the reader, they must have their height again."""
    folder = write_results(tmp_path / "out")
    with served(folder) as address:
        page = chromium.new_page()
        page.goto(address)
        scrolled(page)
        page.locator('.rows input[data-row="EWC strength=10.0"]').uncheck()
        page.locator("button.theme").click()
        chart = figure(page, "Forgetting by task")
        chart.locator("[data-fit]").check()
        chart.evaluate("one => one.scrollIntoView({ block: 'center' })")
        theme, place = page.locator("body").get_attribute("data-theme"), chart.bounding_box()["y"]
        spec = folder / "spec.toml"
        spec.write_text(spec.read_text().replace("Made <up>", "Changed"))
        page.locator("h1", has_text="Changed").wait_for(timeout=20_000)
        chart.locator("svg").wait_for()
        assert chart.bounding_box()["y"] == pytest.approx(place, abs=2)
        assert chart.locator("[data-fit]").is_checked()
        assert not page.locator('.rows input[data-row="EWC strength=10.0"]').is_checked()
        assert page.locator('tr[data-row="EWC strength=10.0"]:visible').count() == 0
        assert page.locator("body").get_attribute("data-theme") == theme
        page.close()
