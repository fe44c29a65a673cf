"""Charts: data, CSV, JSON."""

import io
import json
import re
from html import unescape

import numpy as np
import pandas as pd
import pytest

from crystalrl.report.chart import Chart, as_json, columns, encoded, rounded


def made() -> Chart:
    parts = [{"row": "a, b", "x": np.arange(3), "y": np.array([0.1, 1 / 3, np.nan])}, {"row": "c", "x": 7, "y": 1.0}]
    return Chart("made", "Made", "About.", "lines", columns("lines", parts))


def test_parts_become_columns_of_one_length() -> None:
    data = made().data
    assert data["row"].tolist() == ["a, b", "a, b", "a, b", "c"]
    assert data["x"].tolist() == [0, 1, 2, 7]
    assert data["seed"].tolist() == [-1] * 4
    assert np.isnan(data["low"].astype(float)).all()


def test_the_csv_holds_the_data_in_full_precision() -> None:
    frame = pd.read_csv(io.StringIO(made().csv()), keep_default_na=True)
    pd.testing.assert_frame_equal(frame[["row", "x", "y"]], made().frame()[["row", "x", "y"]], check_dtype=False)
    assert frame["y"][1] == 1 / 3


def test_numbers_of_a_page_have_six_digits_and_unknown_ones_are_null() -> None:
    assert encoded(np.array([1 / 3, np.nan, 2.0, np.inf])) == [0.333333, None, 2, None]
    assert encoded(np.array([3, 4])) == [3, 4]
    assert rounded(123456789.0) == 123457000
    assert json.loads(as_json({"a": "</script>\u2028"})) == {"a": "</script>\u2028"}
    assert "<" not in as_json("</script>")


def test_a_chart_without_a_column_of_its_kind_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^data: wanted the columns panel, row, x, y, got none of \['y'\]"):
        Chart("a", "A", "", "areas", {"panel": np.array([""]), "row": np.array([""]), "x": np.array([1])})
    with pytest.raises(ValueError, match=r"^data: wanted columns of one length"):
        Chart("a", "A", "", "points", {"x": np.array([1]), "y": np.array([1, 2])})


def test_in_a_notebook_a_chart_shows_itself_in_a_frame_of_its_own() -> None:
    shown = made()._repr_html_()
    assert re.fullmatch(r'<iframe srcdoc="[^"]*" style="[^"]*"></iframe>', shown)
    assert '"name":"made"' in unescape(shown)
