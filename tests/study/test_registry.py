"""The registry: what it refuses, and what it suggests instead."""

import pytest

from crystalrl.study.registry import check
from crystalrl.study.spec import RunSpec


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"memory": "crytal"}, "^memory: .*did you mean 'crystal'"),
        ({"method": "ewcc"}, "^method: .*did you mean 'ewc'"),
        ({"suite": "nav8"}, "^suite: .*did you mean 'nav-8'"),
        ({"suite": "nav-1-redefined"}, "^suite: "),
        ({"preset": "paper"}, "^preset: uniform has none"),
        ({"memory": "crystal", "preset": "papr"}, "^preset: .*did you mean 'paper'"),
        ({"memory": "crystal", "params": {"alpa": 1}}, "^params.alpa: .*did you mean 'alpha'"),
        ({"memory": "crystal", "params": {"alpha": [0.1, -1]}}, "^params.alpha: wanted a number from 0"),
        ({"method": "ewc", "method_params": {"strength": -1.0}}, "^method_params.strength: wanted numbers ≥ 0"),
        ({"method": "ewc", "method_params": {"strength": "much"}}, "^method_params: .* got {'strength': 'much'}"),
        ({"agent_params": {"widht": 3}}, "^agent_params.widht: .*did you mean 'width'"),
    ],
)
def test_unknown_names_are_refused_with_the_closest_known_one(fields: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        check(RunSpec(**fields))
