"""Specs: what they refuse, and how listed values are combined."""

import pytest
import torch

from crystalrl.study.definition import Table
from crystalrl.study.plan import plan
from crystalrl.study.run import Scored, Trainer, run
from crystalrl.study.spec import RunSpec, parse_seeds


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"steps": 0}, "^steps: wanted a whole number ≥ 1, got 0"),
        ({"steps": 4}, "^steps: wanted at least one per environment"),
        ({"seeds": (1, 2, 1)}, "^seeds: wanted each once, got \\[1\\]"),
        ({"seeds": ()}, "^seeds: wanted at least one"),
        ({"epsilon": 1.5}, "^epsilon: wanted a number in \\[0, 1\\]"),
    ],
)
def test_invalid_numbers_are_refused_by_name(fields: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        RunSpec(**fields)


def test_a_batch_may_be_larger_than_the_memory_because_draws_are_with_replacement() -> None:
    (group,) = plan({"row": RunSpec("nav-1", capacity=64, batch=100, steps=160, warmup=40, episodes=2, points=1)})
    trainer = Trainer(group, torch.device("cpu"))
    before = trainer.agent.theta.detach().clone()
    assert [event.after for event in run(group, "cpu", trainer) if isinstance(event, Scored)] == [0, 1]
    assert not torch.equal(trainer.agent.theta, before)


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
