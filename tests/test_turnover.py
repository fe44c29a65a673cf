"""How fast c rises, and what a memory keeps while its contents turn over."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from crystalrl import CrystalParams, dynamics
from crystalrl.turnover import Climb, steps_between, turnover


@pytest.mark.parametrize("preset", [CrystalParams(), CrystalParams.repaired(leak=0.001), CrystalParams.paper()])
@pytest.mark.parametrize("wait", [0.1, 0.5, 1.0])
def test_the_climb_takes_as_many_consolidations_as_the_law(preset: CrystalParams, wait: float) -> None:
    climb = Climb.of(preset, preset.interval(2000), 2000, 0.4, 0.05)
    law = dynamics.mean
    c, gain, loss, count = torch.zeros((), dtype=torch.float64), torch.tensor(climb.gain), torch.tensor(climb.loss), 0
    while c <= 0.5:
        dt = torch.tensor(climb.step * (wait if count == 0 and preset.clock == "steps" else 1.0))
        c, count = (c + dt * dynamics.drift(c, gain, loss) if climb.euler else law(c, gain, loss, dt)), count + 1
    assert float(climb.consolidations(0.5, wait)) == count


def test_melting_is_a_climb_downwards() -> None:
    climb = Climb.of(CrystalParams(melt=0.1), 200, 2000, 0.5, 1.0)
    assert climb.target == 0.0
    assert float(climb.consolidations(0.65, 1.0, start=1.0)) == math.ceil(-math.log(0.65) / 0.1)
    assert float(climb.consolidations(0.65, 1.0)) == math.inf


def test_episodes_make_consolidations_due_besides_the_interval() -> None:
    paper = CrystalParams.paper()
    assert steps_between(paper, 1000) == 5000
    assert steps_between(paper, 1000, episode=200) == 200
    assert steps_between(paper, 1000, episode=3000) == pytest.approx(15_000 / 7)  # ends at 3, 5, 6, 9, 10, 12, 15
    assert steps_between(CrystalParams.repaired(), 1000, episode=200) == 5000


def test_a_memory_that_is_scaled_down_turns_over_like_a_small_one() -> None:
    small, large = (turnover(CrystalParams(time_unit=n // 10), n, n // 10) for n in (2000, 200_000))
    assert large.shares == pytest.approx(small.shares, rel=0.05)
    np.testing.assert_allclose(large.counts[-1], small.counts[-1], rtol=0.05)
    assert large.full_after / 100 == pytest.approx(small.full_after, rel=0.05)


def test_a_memory_is_followed_until_its_crystal_store_has_long_been_full() -> None:
    params = CrystalParams.paper_navigation()
    seen = turnover(params, 20_000, params.interval(20_000))
    assert seen.full_after < 0.5 * len(seen.newest) * seen.interval
    assert seen.closed[-seen.cycle :].all()
    assert seen.shares[1] == 0.0
    assert "No crystal forms" not in params.describe(20_000)
    assert "then it admits no more." in params.describe(20_000)
