"""Pages in a real browser: nothing is loaded, nothing fails, and everything can be used."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from crystalrl.report import study_charts
from crystalrl.report.chart import Chart, columns
from crystalrl.report.html import Page, row_switches, study
from crystalrl.report.study_page import write_report
from crystalrl.report.text import Grid
from crystalrl.study.analysis import load_results
from tests.made_up_results import write_results
from tests.report.browser import figure, opened, scrolled


def test_hovering_shows_the_numbers_under_the_pointer(chromium: Any, report: Path) -> None:
    with opened(chromium, report) as page:
        figure(page, "Mean final score").locator("circle").first.hover()
        assert page.locator(".tip").inner_text().startswith("anchored: 0.910 [0.900, 0.920]")
        figure(page, "The learning matrix").locator("rect").last.hover()
        assert page.locator(".tip").inner_text().endswith("tasks learnt 2, score on task 2: 0.410")


def test_the_arrow_keys_move_through_the_values(chromium: Any, report: Path) -> None:
    with opened(chromium, report) as page:
        figure(page, "Score on all tasks so far").locator("svg").first.focus()
        page.keyboard.press("ArrowRight")
        page.keyboard.press("ArrowRight")
        said = page.locator(".tip").inner_text()
        assert "tasks learnt 2" in said
        assert "anchored: 0.910" in said
        page.keyboard.press("Escape")
        assert not page.locator(".tip").is_visible()


def test_the_line_under_the_pointer_stands_out(chromium: Any, report: Path) -> None:
    with opened(chromium, report) as page:
        chart = figure(page, "Score on all tasks so far").locator("svg").first
        faint = "all => all.filter((one) => one.classList.contains('faint')).map((one) => one.dataset.row)"
        lines = chart.locator('path[data-seed="-1"]')
        box = chart.bounding_box()
        assert box is not None
        page.mouse.move(box["x"] + box["width"] - 19, box["y"] + 15)  # the last point of the upper line
        assert lines.evaluate_all(faint) == ["EWC strength=10.0"]
        page.mouse.move(0, 0)
        assert lines.evaluate_all(faint) == []
        page.locator(".rows label", has_text="EWC").hover()
        assert lines.evaluate_all(faint) == ["anchored"]


def test_a_row_may_have_the_name_of_a_phase(chromium: Any, tmp_path: Path) -> None:
    """It keeps the colour of its switch."""
    path = tmp_path / "page.html"
    made, results = Page(), load_results(write_results(tmp_path / "out"))
    row = replace(results.rows[0], chosen=replace(results.rows[0].chosen, name="crystal"))
    drawn = made.figure(study_charts.average(replace(results, rows=(row,))))
    path.write_text(made.document("page", [study(0, ["crystal"], [row_switches(["crystal"]), drawn])]))
    with opened(chromium, path) as page:
        colour = "one => getComputedStyle(one).fill"
        switch = page.locator(".rows label").evaluate("one => getComputedStyle(one).color")
        assert page.locator("figure circle").evaluate(colour) == switch


def test_a_tuned_row_has_its_colour_in_the_sensitivity_chart(chromium: Any, report: Path) -> None:
    with opened(chromium, report) as page:
        switch = page.locator(".rows label", has_text="EWC").evaluate("one => getComputedStyle(one).color")
        line = figure(page, "Sensitivity").locator('path[data-row="EWC"][data-seed]')
        assert line.evaluate("one => getComputedStyle(one).stroke") == switch


def test_a_row_that_is_switched_off_is_gone_from_charts_and_tables(chromium: Any, report: Path) -> None:
    with opened(chromium, report) as page:
        chart = figure(page, "Mean final score")
        assert chart.locator("circle").count() == 2
        page.locator('.rows input[data-row="EWC strength=10.0"]').focus()
        page.keyboard.press("Space")
        assert chart.locator("circle").count() == 1
        assert page.locator('tr[data-row="EWC strength=10.0"]:visible').count() == 0
        page.locator(".rows [data-all]").click()
        assert chart.locator("circle").count() == 2


def test_single_seeds_are_drawn_on_request(chromium: Any, report: Path) -> None:
    with opened(chromium, report) as page:
        chart = figure(page, "Score on all tasks so far")
        assert chart.locator("path.seed").count() == 0
        chart.locator("[data-seeds]").check()
        assert chart.locator("path.seed").count() == 2 * 3


def test_an_axis_can_be_fitted_to_the_rows_shown(chromium: Any, report: Path) -> None:
    with opened(chromium, report) as page:
        page.locator('.rows input[data-row="EWC strength=10.0"]').uncheck()
        for title, axis in (("Mean final score", "middle"), ("Score on all tasks so far", "end")):
            chart = figure(page, title)
            ticks = chart.locator(f'svg text.dim[text-anchor="{axis}"]')
            assert {"0", "1"} <= set(ticks.all_text_contents())
            chart.locator("[data-fit]").check()
            assert all(0.8 < float(tick) <= 1 for tick in ticks.all_text_contents())  # the other row has 0.41
            chart.locator("[data-fit]").uncheck()
            assert {"0", "1"} <= set(ticks.all_text_contents())


def test_rows_of_a_chart_can_be_sorted_by_their_values(chromium: Any, tmp_path: Path) -> None:
    made, path, names = Page(), tmp_path / "page.html", ["low", "high"]
    low, high = reversed(load_results(write_results(tmp_path / "out")).rows)
    named = [replace(row, chosen=replace(row.chosen, name=name)) for row, name in zip((low, high), names, strict=True)]
    results = replace(load_results(tmp_path / "out"), rows=tuple(named))
    path.write_text(made.document("page", [study(0, names, [made.figure(study_charts.average(results))])]))
    with opened(chromium, path) as page:
        drawn = page.locator("figure circle")
        order = "all => all.map((one) => one.dataset.row)"
        assert drawn.evaluate_all(order) == ["low", "high"]
        page.locator("[data-order]").check()
        assert drawn.evaluate_all(order) == ["high", "low"]


def test_on_a_phone_the_names_of_rows_are_whole(chromium: Any, tmp_path: Path) -> None:
    made, path, name = Page(), tmp_path / "page.html", "a long name, of which only the end is different from others"
    drawn = made.figure(study_charts.average(load_results(write_results(tmp_path / "out"))))
    path.write_text(made.document("page", [study(0, [name], [row_switches([name]), drawn])]))
    with opened(chromium, path, width=390) as page:
        assert page.locator(".rows label").evaluate("one => one.scrollWidth <= one.clientWidth")


def test_every_axis_has_two_numbers(chromium: Any, tmp_path: Path) -> None:
    """On a phone there is room for few: of 200 to 9,000 steps, 5,000 alone would be no scale."""
    x = np.array([200.0, 9000.0])
    part = {"row": "liquid", "x": x, "y": x / 10}
    chart = Chart("phases", "Phases", "", "areas", columns("areas", [part]), x="steps", y="experiences")
    path, made = tmp_path / "page.html", Page()
    path.write_text(made.document("page", [made.figure(chart)]))
    with opened(chromium, path, width=390) as page:
        ticks = page.locator('svg text.dim[text-anchor="middle"]').all_text_contents()
        assert ticks == ["2000", "4000", "6000", "8000"]


def test_a_chart_of_lines_names_its_rows_on_phones_and_on_paper(chromium: Any, report: Path) -> None:
    """There the switches are not in view."""
    keys = [["anchored", "EWC strength=10.0"], ["anchored"]]
    with opened(chromium, report, width=390) as page:
        named = figure(page, "Score on all tasks so far").locator(".keys > span:visible")
        assert named.all_inner_texts() == keys[0]
        line = figure(page, "Score on all tasks so far").locator('path[data-row="anchored"][data-seed]')
        stroke = line.evaluate("one => getComputedStyle(one).stroke")
        assert named.first.evaluate("one => getComputedStyle(one).color") == stroke
        page.locator('.rows input[data-row="EWC strength=10.0"]').uncheck()
        assert named.all_inner_texts() == keys[1]
    with opened(chromium, report) as page:
        named = figure(page, "Score on all tasks so far").locator(".keys > span:visible")
        assert named.count() == 0
        page.emulate_media(media="print")
        assert named.all_inner_texts() == keys[0]


def test_links_lead_to_the_parts_of_the_page(chromium: Any, report: Path) -> None:
    with opened(chromium, report) as page:
        links = page.locator(".bar nav a")
        assert links.all_inner_texts() == ["Results", "Over time", "Tests", "What was run"]
        links.last.click()
        page.wait_for_function("scrollY > 1000")
        heading, bar = page.locator("h2", has_text="What was run").bounding_box(), page.locator(".bar").bounding_box()
        assert heading["y"] >= bar["y"] + bar["height"]  # not under the bar, which stays in view


def test_the_eleventh_row_has_the_colour_of_the_first_and_is_dashed_like_its_line(
    chromium: Any, tmp_path: Path
) -> None:
    path, names = tmp_path / "page.html", [f"row {k}" for k in range(11)]
    made, results = Page(), load_results(write_results(tmp_path / "out"))
    rows = tuple(replace(results.rows[0], chosen=replace(results.rows[0].chosen, name=name)) for name in names)
    drawn = made.figure(study_charts.course(replace(results, rows=rows)))
    path.write_text(made.document("page", [study(0, names, [row_switches(names), drawn])]))
    with opened(chromium, path) as page:
        swatches = page.locator(".rows i").evaluate_all(
            "all => all.map((one) => getComputedStyle(one).backgroundImage)"
        )
        lines = page.locator("path[data-seed]").evaluate_all(
            "all => all.map((one) => one.getAttribute('stroke-dasharray'))"
        )
        assert [image == "none" for image in swatches] == [dash == "" for dash in lines] == [True] * 10 + [False]


def test_tables_are_sorted(chromium: Any, report: Path) -> None:
    with opened(chromium, report) as page:
        table = page.locator("table[data-sort]").first
        names = table.locator("tbody td:first-child")
        assert names.all_inner_texts() == ["anchored", "EWC strength=10.0"]
        table.locator("th button", has_text="AP").click()
        assert names.all_inner_texts() == ["anchored", "EWC strength=10.0"]
        table.locator("th button", has_text="AP").click()
        assert names.all_inner_texts() == ["EWC strength=10.0", "anchored"]
        assert table.locator('th[aria-sort="ascending"]').inner_text().startswith("AP")


def test_long_tables_are_filtered_and_copied_as_shown(chromium: Any, tmp_path: Path) -> None:
    made, path = Page(), tmp_path / "page.html"
    table = made.table(Grid(["", "x"], [[f"row {k}", str(10 * k)] for k in range(12)]))
    drawn = made.figure(study_charts.average(load_results(write_results(tmp_path / "out"))))
    path.write_text(made.document("page", [table, made.copied("@software{crystalrl}"), drawn]))
    with opened(chromium, path) as page:
        shown = page.locator("tbody tr:visible td:first-child")
        page.locator("input[type=search]").fill("ROW 1")
        assert shown.all_inner_texts() == ["row 1", "row 10", "row 11"]
        page.locator("th button", has_text="x").click()
        assert shown.all_inner_texts() == ["row 11", "row 10", "row 1"]
        page.evaluate("navigator.clipboard.writeText = async (text) => { window.copied = text; }")
        page.get_by_text("copy as markdown").click()
        lines = page.evaluate("window.copied").splitlines()
        assert lines[2:] == ["| row 11 | 110 |", "| row 10 | 100 |", "| row 1 | 10 |"]
        page.get_by_text("copy", exact=True).click()
        assert page.evaluate("window.copied") == "@software{crystalrl}"
        page.locator("input[type=search]").fill("")
        assert shown.count() == 12


def test_data_are_saved_as_csv_and_tables_copied_as_markdown(chromium: Any, report: Path) -> None:
    with opened(chromium, report) as page:
        with page.expect_download() as saved:
            figure(page, "Mean final score").get_by_text("data as CSV").click()
        lines = Path(saved.value.path()).read_text().splitlines()
        assert (lines[0], lines[1][:18]) == ("panel,row,value,low,high", ",anchored,0.91,0.9")
        page.evaluate("navigator.clipboard.writeText = async (text) => { window.copied = text; }")
        page.get_by_text("copy as markdown").first.click()
        assert "| anchored | .910 [.900, .920] |" in page.evaluate("window.copied")


@pytest.mark.parametrize(("scheme", "light"), [("light", True), ("dark", False)])
def test_the_page_follows_the_system_and_can_be_switched(chromium: Any, report: Path, scheme: str, light: bool) -> None:
    bright = "getComputedStyle(document.body).backgroundColor"
    with opened(chromium, report, scheme=scheme) as page:
        assert (page.evaluate(bright) == "rgb(255, 255, 255)") == light
        page.locator("button.theme").click()
        assert (page.evaluate(bright) == "rgb(255, 255, 255)") != light


@pytest.mark.parametrize("width", [390, 2200])
def test_nothing_is_wider_than_the_window(chromium: Any, report: Path, width: int) -> None:
    with opened(chromium, report, width=width) as page:
        scrolled(page)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        widths = page.locator("figure svg").evaluate_all("all => all.map((one) => one.getBoundingClientRect().right)")
        assert max(widths) <= width


def test_long_headings_wrap_so_that_a_phone_shows_numbers(chromium: Any, tmp_path: Path) -> None:
    made, path, long = Page(), tmp_path / "page.html", "Ten tasks, then two of them redefined; 1,000 slots"
    drawn = made.figure(study_charts.average(load_results(write_results(tmp_path / "out"))))
    path.write_text(made.document("page", [drawn, made.table(Grid(["AP of", long], [["a", ".910 [.900, .920]"]]))]))
    with opened(chromium, path, width=390) as page:
        assert page.locator("td").last.evaluate("one => one.getBoundingClientRect().right") <= 390


def test_a_matrix_shows_its_scale_and_the_name_of_a_chosen_panel(chromium: Any, report: Path) -> None:
    with opened(chromium, report) as page:
        chart = figure(page, "The learning matrix")
        assert chart.locator(".scale").inner_text().split() == ["0", "1"]
        chart.locator("[data-panel]").select_option("anchored")
        assert chart.locator(".plot .quiet").all_inner_texts() == ["anchored"]  # on paper, the choice is not shown
        page.locator('.rows input[data-row="anchored"]').uncheck()
        assert chart.locator(".plot .quiet").all_inner_texts() == ["EWC strength=10.0"]


def test_hostile_names_run_no_code(chromium: Any, tmp_path: Path) -> None:
    folder = write_results(tmp_path / "out")
    spec = folder / "spec.toml"
    spec.write_text(spec.read_text().replace("Made <up>", "<img src=x onerror=document.title=1></script><b>x"))
    path = write_report([folder], folder / "report.html")
    with opened(chromium, path) as page:
        assert page.locator("h1").inner_text() == "<img src=x onerror=document.title=1></script><b>x"
        assert page.locator("img").count() == 0
