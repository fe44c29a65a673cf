"""Tables become arrays by cell and seed."""

import numpy as np

from crystalrl.study.pivot import by_cell, pivot


def test_the_lines_of_a_cell_are_found_wherever_they_are() -> None:
    cells = np.array(["b", "a", "b", "c", "a"], object)
    found = by_cell({"cell": cells})
    assert {cell: at.tolist() for cell, at in found.items()} == {"b": [0, 2], "a": [1, 4], "c": [3]}
    assert list(found) == ["b", "a", "c"]
    assert by_cell({}) == {}


def test_scores_are_placed_by_seed_and_two_columns_and_others_are_unknown() -> None:
    mine = {"seed": [7, 3, 9, 3], "x": [0, 1, 0, 0], "y": [1, 0, 0, 1], "score": [0.1, 0.2, 0.3, 0.4]}
    made = pivot({name: np.array(column) for name, column in mine.items()}, (7, 3), ("x", "y"), (2, 2))
    expected = [[[np.nan, 0.1], [np.nan, np.nan]], [[np.nan, 0.4], [0.2, np.nan]]]
    np.testing.assert_array_equal(made, expected)  # seed 9 was not asked for
