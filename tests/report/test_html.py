"""The HTML page."""

import re
import shutil
from pathlib import Path

from crystalrl.report import html, text
from crystalrl.study.analysis import load_results


def test_the_page_is_complete_escaped_and_loads_no_other_files(folder: Path) -> None:
    page = html.write_report(folder).read_text()
    assert "<h1>Made &lt;up&gt;</h1>" in page
    for heading in ("Methods compared", "The learning matrix", "phases over time", "Tests", "All values tried"):
        assert heading in page
    assert not re.findall(r'(?:src|href)="(?!#|data:)[^"]*"', page.replace("xlink:", ""))
    assert page.count("<svg") == 6


def test_results_without_the_memory_table_are_reported_without_its_numbers(folder: Path) -> None:
    assert results_of(folder) == [".910 [.900, .920]", ".455 [.450, .460]"]
    shutil.rmtree(folder / "memory.parquet")
    assert results_of(folder) == [".910 [.900, .920]", "–"]
    page = html.write_report(folder).read_text()
    assert "phases over time" not in page
    assert page.count("<svg") == 5


def results_of(folder: Path) -> list[str]:
    """AP and AP per megabyte of the first row."""
    return text.main_table(load_results(folder), ("AP", "AP per MB")).lines[0][1:3]
