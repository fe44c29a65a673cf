"""The parts of a page."""

import json
import re

import numpy as np

from crystalrl.report.chart import Chart, columns
from crystalrl.report.html import Page, definitions, messages, row_switches, study
from crystalrl.report.text import Grid

HOSTILE = "</script><img src=x onerror=alert(1)> \"&'"


def chart(name: str) -> Chart:
    data = columns("lines", [{"row": HOSTILE, "x": np.array([1.0, 2.0]), "y": np.array([0.5, np.nan])}])
    return Chart(name, HOSTILE, HOSTILE, "lines", data)


def test_no_name_can_become_part_of_the_page() -> None:
    page = Page()
    parts = [page.figure(chart("one")), page.table(Grid(["", HOSTILE], [[HOSTILE, HOSTILE]]), {HOSTILE: HOSTILE})]
    parts += [messages([HOSTILE]), row_switches([HOSTILE]), definitions([(HOSTILE, HOSTILE)]), page.copied(HOSTILE)]
    text = page.document(HOSTILE, [study(0, [HOSTILE], parts)])
    assert "<img" not in text
    assert text.count("</script>") == 2
    (inside,) = re.findall(r'<script type="application/json" class="charts">(.*?)</script>', text, re.DOTALL)
    (spec,) = json.loads(inside)
    assert spec["title"] == HOSTILE
    assert spec["data"]["row"] == {"words": [HOSTILE], "at": [0, 0]}


def test_a_page_may_load_nothing_and_names_no_address() -> None:
    page = Page()
    text = page.document("title", [page.figure(chart("one"))])
    assert "default-src 'none'" in text
    assert not re.findall(r'(?:src|href)="(?!#|data:)[^"]*"', text)
    assert set(re.findall(r"https?://[^\s\"'<]+", text)) == {
        "http://www.w3.org/2000/svg"
    }  # the name of SVG, not loaded


def test_a_chart_or_table_without_data_is_left_out() -> None:
    page = Page()
    assert page.figure(Chart("none", "t", "a", "lines", columns("lines", []))) == ""
    assert page.table(Grid(["a"], [])) == ""
    assert page.charts == []


def test_lines_of_a_table_belong_to_the_rows_of_the_study_and_the_best_are_marked() -> None:
    grid = Grid(["", "AP"], [["EWC", ".5"], ["other", ".4"]], frozenset({(0, 1)}))
    table = Page().table(grid, {"EWC": "EWC strength=1"})
    assert '<tr data-row="EWC strength=1"><td>EWC</td><td class="best">.5</td></tr>' in table
    assert "<tr><td>other</td><td>.4</td></tr>" in table


def test_only_a_page_that_follows_a_run_has_an_address_for_updates() -> None:
    assert "data-live=" not in Page().document("title", [])
    assert '<body class="crystalrl" data-live="/events">' in Page().document("title", [], "/events")
