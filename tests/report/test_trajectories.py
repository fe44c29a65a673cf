"""Single experiences against the theory."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from crystalrl import results as stored
from crystalrl.report.trajectories import lives, predicted, timescales, trajectories
from crystalrl.study.inspection import Inspected, inspect_run


@pytest.fixture
def one(ran: Path) -> Inspected:
    return inspect_run(ran)[0][0]


def test_lives_are_the_lines_of_one_experience_in_order(ran: Path, one: Inspected) -> None:
    followed = stored.load(ran)["followed"]
    found = list(lives(one))
    assert len(found) == followed["number"].nunique()
    for life in found:
        mine = followed[followed["number"] == life["number"][0]].sort_values("step")
        assert life["c"].tolist() == mine["c"].tolist()


def test_measured_c_lies_within_a_few_deviations_of_the_law(one: Inspected) -> None:
    """The law gets the rates that each consolidation measured; what remains is its noise."""
    excess = []
    for life in lives(one):
        if len(life["step"]) > 4:
            mean, deviation = predicted(one, life)
            excess += (np.abs(life["c"] - mean) / np.maximum(deviation, 1e-3)).tolist()[1:]
    assert len(excess) > 50
    assert np.mean(np.array(excess) < 2) > 0.9
    frame = trajectories(one).frame()
    assert set(frame["row"]) == {"measured", "law"}
    assert frame["panel"].nunique() <= 9


def test_without_rates_the_law_stays_where_it_began(one: Inspected) -> None:
    still = replace(one, params=replace(one.params, alpha=0.0, melt=0.0, sigma=0.0))
    life = max(lives(still), key=lambda life: len(life["step"]))
    mean, deviation = predicted(still, life)
    np.testing.assert_allclose(mean, life["c"][0], rtol=1e-6)
    assert (deviation == 0).all()


def test_times_are_counted_from_arrival_to_the_first_consolidation_above(one: Inspected) -> None:
    made = {
        "number": np.array([100, 100, 100, 7]),
        "step": np.array([150, 200, 250, 150]),
        "c": np.array([0.1, 0.4, 0.8, 0.9]),
    }
    grid = timescales(replace(one, followed=made))
    assert grid.lines[0] == ["to glass (c > 0.3)", "100 [100, 100]", "1", "~1,000"]
    assert grid.lines[1] == ["to crystal (c > 0.7)", "150 [150, 150]", "1", "~10,000"]
    assert grid.lines[2] == ["to c = .95", "–", "–", "~50,000"]
