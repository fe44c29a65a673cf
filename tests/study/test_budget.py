"""Memory-matched studies: the capacity that fits a budget."""

import pytest

from crystalrl.study.budget import capacity_for, nbytes_at
from crystalrl.study.definition import Table
from crystalrl.study.spec import RunSpec


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
