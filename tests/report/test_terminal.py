"""Results in the terminal."""

import io
from pathlib import Path

from rich.console import Console

from crystalrl.report import text
from crystalrl.report.terminal import print_results
from crystalrl.study.analysis import load_results


def test_the_terminal_shows_the_title_the_main_table_the_tests_and_the_headline(folder: Path) -> None:
    out, results = io.StringIO(), load_results(folder)
    print_results(results, Console(file=out, width=400))
    for part in ("Made <up>", ".910 [.900, .920]", "anchored against", text.family(results), text.headline(results)):
        assert part in out.getvalue()
