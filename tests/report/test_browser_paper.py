"""Pages on paper, in a real browser."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from crystalrl.report import origin, study_charts
from crystalrl.report.html import Page
from crystalrl.report.inspect_page import inspection_page
from crystalrl.study.analysis import load_results
from crystalrl.study.inspection import inspect_run
from tests.made_up_results import write_results
from tests.report.browser import figure, opened


def test_on_paper_all_charts_are_drawn_and_no_tools(chromium: Any, report: Path) -> None:
    with opened(chromium, report) as page:
        page.emulate_media(media="print")
        page.evaluate("dispatchEvent(new Event('beforeprint'))")
        assert page.locator("figure[data-chart]").count() == page.locator("figure:has(svg)").count()
        assert page.locator(".tools :is(button, select, input, label):visible").count() == 0
        assert len(page.pdf()) > 20_000


@pytest.mark.usefixtures("without_umap")
def test_paper_shows_what_colours_mean(chromium: Any, ran: Path, tmp_path: Path) -> None:
    found, problems = inspect_run(ran)
    path = tmp_path / "inspect.html"
    path.write_text(inspection_page(found, "run", problems, live=""))
    with opened(chromium, path) as page:
        page.emulate_media(media="print")
        page.evaluate("dispatchEvent(new Event('beforeprint'))")
        for title, legend in (
            ("Phases and slots used over time", ["liquid", "glass", "crystal"]),
            ("Single experiences against the theory", ["measured", "law"]),
        ):
            assert figure(page, title).locator(".scale > span").all_inner_texts() == legend
        assert figure(page, "Map of the experiences: PCA").locator(".scale").inner_text().startswith("phase: ")


@pytest.mark.usefixtures("without_umap")
def test_on_paper_nothing_is_folded(chromium: Any, ran: Path, tmp_path: Path) -> None:
    found, problems = inspect_run(ran)
    path = tmp_path / "inspect.html"
    path.write_text(inspection_page(found, "run", problems))
    with opened(chromium, path) as page:
        setting = page.locator("details dt", has_text="time_unit").first
        assert not setting.is_visible()
        page.evaluate("dispatchEvent(new Event('beforeprint'))")
        assert setting.is_visible()
        page.evaluate("dispatchEvent(new Event('afterprint'))")
        assert not setting.is_visible()


def test_rows_with_many_settings_fit_on_paper(chromium: Any, tmp_path: Path) -> None:
    made, path, results = Page(), tmp_path / "page.html", load_results(write_results(tmp_path / "out"))
    spec = replace(results.rows[0].spec, agent_params={f"coefficient_of_part_{k}": 0.01 * k for k in range(12)})
    many = replace(results, rows=(replace(results.rows[0], spec=spec), results.rows[1]))
    drawn, table = made.figure(study_charts.average(many)), made.table(origin.settings(many)[1], kind="words")
    path.write_text(made.document("page", [drawn, table]))
    with opened(chromium, path, width=720) as page:
        page.emulate_media(media="print")
        assert page.locator("td").last.evaluate("one => one.getBoundingClientRect().right") <= 720


def test_paper_is_always_light(chromium: Any, report: Path) -> None:
    with opened(chromium, report, scheme="dark") as page:
        colours = "one => [getComputedStyle(one).backgroundColor, getComputedStyle(one).color]"
        line = page.locator("tbody tr:nth-child(even) td").first
        on_screen = line.evaluate(colours)
        page.emulate_media(media="print")
        assert line.evaluate(colours) == ["rgb(243, 245, 248)", "rgb(0, 0, 0)"] != on_screen
        page.locator("body").evaluate("one => { one.dataset.theme = 'dark'; }")
        assert line.evaluate(colours) == ["rgb(243, 245, 248)", "rgb(0, 0, 0)"]
