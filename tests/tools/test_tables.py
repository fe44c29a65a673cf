"""Tables on the pages are those of the stored results and of the code."""

import pytest

from tools.stored import entry, markdown, results_of
from tools.tables import BLOCK, PAGES, ROOT, TABLES, render


@pytest.mark.parametrize("page", PAGES)
def test_rendering_again_changes_nothing(page: str) -> None:
    text = (ROOT / page).read_text()
    emptied = BLOCK.sub(r"\1\n\3", text)
    assert emptied != text
    assert render(emptied) == text


def test_every_table_is_on_a_page() -> None:
    markers = {match[1] for page in PAGES for match in BLOCK.findall((ROOT / page).read_text())}
    assert markers == set(TABLES)


def test_a_method_that_was_not_measured_is_a_dash() -> None:
    stored = [results_of(study) for study in ("default/redefined", "minatar-5")]
    assert entry(stored, "no such row") == "–"
    assert entry(stored, "reservoir").startswith("0.52 [0.47")  # of the first study
    assert entry(stored, "anchored") == entry(stored[1:], "anchored") != "–"


def test_a_table_has_a_head_and_its_rows() -> None:
    assert markdown(["a", "b"], [["1", "2"]]) == "| a | b |\n| --- | --- |\n| 1 | 2 |"
