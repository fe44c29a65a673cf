"""Several studies on one page, in Chromium."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from crystalrl.report.html import Page
from crystalrl.report.study_charts import averages
from crystalrl.report.study_page import page, source
from crystalrl.study.analysis import load_results
from tests.made_up_results import write_results
from tests.report.browser import opened


def test_many_studies_are_all_drawn_each_in_its_own_unit(chromium: Any, tmp_path: Path) -> None:
    """Scores of one study are between 0 and 1, those of the other up to 1,000."""
    results, made, path = load_results(write_results(tmp_path / "out")), Page(), tmp_path / "page.html"
    cells = [replace(r.chosen, metrics={"AP": 1000 * r.chosen.metrics["AP"]}) for r in results.rows]
    large = replace(results, rows=tuple(replace(r, chosen=c) for r, c in zip(results.rows, cells, strict=True)))
    drawn = made.figure(averages({f"study {k}": large if k == 13 else results for k in range(14)}))
    path.write_text(made.document("page", [drawn]))
    with opened(chromium, path) as shown:
        charts = shown.locator("figure svg")
        assert charts.count() == 14
        for k in (0, 13):
            right = charts.nth(k).evaluate("one => one.getBoundingClientRect().width")
            assert float(charts.nth(k).locator("circle").first.get_attribute("cx")) > 0.8 * right


def test_the_title_of_many_studies_is_short(tmp_path: Path) -> None:
    sources = []
    for k in range(4):
        folder = write_results(tmp_path / str(k))
        (folder / "spec.toml").write_text((folder / "spec.toml").read_text().replace("Made <up>", f"Study {k}"))
        sources.append(source(folder))
    assert "<h1>Study 0 · Study 1 · Study 2</h1>" in page(sources[:3], tmp_path)
    assert "<h1>4 studies</h1>" in page(sources, tmp_path)
