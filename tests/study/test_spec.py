"""Specs: what they refuse, and how listed values are combined."""

import pytest

from crystalrl.study.definition import Table
from crystalrl.study.plan import plan
from crystalrl.study.spec import RunSpec, parse_seeds


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"steps": 0}, "^steps: wanted a whole number ≥ 1, got 0"),
        ({"steps": 4}, "^steps: wanted at least one per environment"),
        ({"seeds": (1, 2, 1)}, "^seeds: wanted each once, got \\[1\\]"),
        ({"seeds": ()}, "^seeds: wanted at least one"),
        ({"batch": 2000}, "^batch: wanted at most the capacity"),
        ({"epsilon": 1.5}, "^epsilon: wanted a number in \\[0, 1\\]"),
    ],
)
def test_invalid_numbers_are_refused_by_name(fields: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        RunSpec(**fields)


def test_seeds_are_written_as_ranges_and_lists() -> None:
    assert parse_seeds("0:3,7") == (0, 1, 2, 7)
    assert parse_seeds(5) == (5,)
    with pytest.raises(ValueError, match=r"^seeds: wanted a form such as 0:16"):
        parse_seeds("few")


def test_grid_each_varies_one_value_at_a_time_from_the_first_ones_and_is_never_tuned() -> None:
    spec = RunSpec("nav-2", memory="crystal", grid="each", params={"alpha": [0.2, 0.1, 0.4], "kappa": [0.1, 0.3]})
    assert {label: (s.params["alpha"], s.params["kappa"]) for label, s in spec.cells().items()} == {
        "": (0.2, 0.1), "alpha=0.1": (0.1, 0.1), "alpha=0.4": (0.4, 0.1), "kappa=0.3": (0.2, 0.3),
    }  # fmt: skip
    table = Table("", {"row": spec}, tuning_seeds=(1000,))
    assert table.runs()["row"].seeds == (0,)
    (group,) = plan(table.runs())
    assert len(group.lanes) == 4
