"""What becomes of single experiences; `test_params_words.py` compares it with running memories."""

from __future__ import annotations

import math

import numpy as np
import pytest

from crystalrl import CrystalParams
from crystalrl.fates import fates
from crystalrl.turnover import Climb, turnover


def test_by_littles_law_glass_holds_what_becomes_crystal_for_its_time_there() -> None:
    """If all utilities are equal, newer ones stay: what is in a full glass store is evicted before it becomes
    crystal."""
    params = CrystalParams(time_unit=100)
    seen = turnover(params, 1000, 100, [0.5] * 10)
    assert seen.shares[1] == 0.0
    climb = Climb.of(params, 100, 1000, 0.5)
    assert fates(seen, params, climb, 0.5, 100).share("crystal") == 0.0
    even = turnover(params, 1000, 100)
    best = 1 - even.shares[1] / 2
    time = -math.log(0.3 / 0.7) / (0.2 * best) * 100
    assert even.shares[1] * time == pytest.approx(params.caps(1000)[1], rel=0.15)


def test_a_memory_with_room_for_all_overwrites_only_the_lowest_utilities() -> None:
    params = CrystalParams(time_unit=10)
    seen = turnover(params, 2000, 10, np.linspace(0.3, 1, 50))
    climb = Climb.of(params, 10, 2000, 0.3)
    fate = fates(seen, params, climb, 0.3, 10)
    assert fate.share("crystal") == 1.0
    assert fate.mean("crystal") == pytest.approx(-math.log(0.3) / 0.06 * 10 + 5, abs=2)
    assert math.isnan(fate.mean("lost"))
