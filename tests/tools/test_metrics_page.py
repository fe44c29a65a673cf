"""docs/metrics.md is what the code says."""

from tools.metrics_page import PAGE, page


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run `python -m tools.metrics_page`"
