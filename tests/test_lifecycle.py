"""Rates, thresholds, capacity and time: inconsistent values are refused, capacities sum to all slots."""

from __future__ import annotations

from dataclasses import fields

import pytest

from crystalrl import CrystalParams
from crystalrl.lifecycle import Lifecycle
from crystalrl.params_words import describe


def test_inconsistent_values_are_refused() -> None:
    for changes, message in (
        ({"tau_L": 0.7, "tau_C": 0.7}, "tau_L, tau_C: wanted tau_L < tau_C"),
        ({"tau_evict": 256}, "tau_evict: wanted at most 255"),
        ({"tau_L": (0.3, 0.9)}, "tau_L, tau_C: wanted tau_L < tau_C"),
        ({"integrator": "euler", "clock": "calls", "delta_t": 20.0}, "Euler steps of 20"),
        ({"alpha": (0.1, 0.2), "beta": (0.1,) * 3, "integrator": "euler", "every": 200}, "the same number of lanes"),
        ({"integrator": "euler"}, "Euler steps of 25"),
        ({"integrator": "euler", "clock": "calls", "alpha": 0.9, "beta": 0.2}, "alpha, beta, leak"),
        ({"spare": 0.1}, "spare: wanted 0 where liquid borrows"),
        ({"integrator": "euler", "clock": "calls", "melt": 1.0}, "alpha, melt, leak"),
    ):
        with pytest.raises(ValueError, match=message):
            CrystalParams.repaired(**changes)


def test_capacities_sum_to_all_slots_and_liquid_has_at_least_one() -> None:
    for shares in ((10, 5, 1), (6, 2, 8), (1e-9, 1, 1), (1, 0, 0), (1, 0, 9)):
        for slots in range(1, 200):
            liquid, glass, crystal = CrystalParams.repaired(capacity=shares).caps(slots)
            assert liquid >= 1
            assert min(glass, crystal) >= 0
            assert liquid + glass + crystal == slots


def test_the_unit_of_time_follows_the_capacity_where_it_is_not_given() -> None:
    params = CrystalParams.anchored()
    assert [params.unit(slots) for slots in (100, 5000, 10**6)] == [200, 500, 2000]
    assert [params.interval(slots) for slots in (100, 5000, 10**6)] == [200, 500, 2000]
    assert CrystalParams.repaired().unit(10**6) == 200
    assert CrystalParams.repaired().interval(10**6) == 5000


def test_spare_slots_belong_to_no_phase() -> None:
    params = CrystalParams.paper(spare=0.25)
    assert params.caps(16_000) == (7_500, 3_750, 750)
    assert sum(params.caps(7)) == 6
    assert params.caps(1) == (1, 0, 0)


def test_the_theory_and_the_forecast_need_no_more_than_the_lifecycle() -> None:
    """What is said of a schedule depends on these fields alone."""
    params = CrystalParams.repaired(alpha=0.1, every=500)
    own = Lifecycle(**{field.name: getattr(params, field.name) for field in fields(Lifecycle)})
    assert describe(own, 2000, 0.8) == params.describe(2000, 0.8)
    assert own.caps(2000) == params.caps(2000)
