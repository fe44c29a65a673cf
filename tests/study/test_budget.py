"""Memory-matched studies: the capacity that fits a budget."""

from dataclasses import replace

import pytest

from crystalrl.study.budget import capacity_for, nbytes_at
from crystalrl.study.definition import Table
from crystalrl.study.spec import RunSpec
from tests.study.own_tasks import OWN


@pytest.mark.parametrize(
    "design", [{"memory": "uniform"}, {"memory": "crystal", "preset": "anchored"}, {"method": "distill"}]
)
def test_a_budget_gives_the_largest_capacity_that_fits(design: dict[str, str]) -> None:
    spec = RunSpec("nav-4", budget_mb=0.5, batch=32, **design)
    found = capacity_for(spec)
    assert nbytes_at(found, found.capacity) <= 500_000 < nbytes_at(found, found.capacity + 1)
    assert Table("", {"row": spec}).runs()["row"] == found
    with pytest.raises(
        ValueError, match=r"^budget_mb: wanted at least 0.0.. MB, which 32 experiences need, got 0.0001"
    ):
        capacity_for(RunSpec("nav-4", budget_mb=1e-4, batch=32, **design))


def test_learners_from_scratch_have_the_capacity_of_any_other_also_if_tasks_have_own_steps() -> None:
    for suite in ("nav-3", OWN):
        spec = RunSpec(suite, budget_mb=0.2, batch=32)
        alone, ordered = replace(spec, scratch=True), replace(spec, orders=2)
        assert capacity_for(alone).capacity == capacity_for(ordered).capacity == capacity_for(spec).capacity
