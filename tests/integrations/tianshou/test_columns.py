"""Columns of a step: names, dtypes and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tianshou.data import Batch

from crystalrl.integrations.tianshou.columns import STORED, fields_of, nested, rows_of


def step(**changes: object) -> Batch:
    """One step of two environments, with a dict observation."""
    flags = np.array([True, False])
    obs = {"a": np.zeros((2, 3)), "b": np.ones((2, 1), np.uint8)}
    whole = {"obs": obs, "act": np.array([0, 1]), "rew": np.array([1.5, -0.5]), "obs_next": obs}
    return Batch(**{**whole, "terminated": flags, "truncated": ~flags, "info": {}, **changes})


def test_parts_of_dict_observations_are_columns_and_come_back_as_dicts() -> None:
    rows = rows_of(step(), 2)
    assert {name.partition(".")[0] for name in rows} == set(STORED)
    assert rows["obs.a"].dtype == np.float32
    assert rows["obs.b"].dtype == np.uint8
    assert rows["rew"].dtype == np.float64
    assert rows["done"].tolist() == [True, True]
    assert set(nested(rows)["obs"]) == {"a", "b"}
    fields = fields_of(rows)
    assert set(fields) == {"obs", "action", "reward", "next_obs", "terminated", "truncated"}
    assert fields["reward"].dtype == torch.float32
    assert fields["obs"]["b"].tolist() == [[1], [1]]


def test_nested_dicts_wrong_lengths_and_numbers_that_are_not_finite_are_refused() -> None:
    with pytest.raises(TypeError, match=r"obs.a: wanted an array of numbers, got Batch: nested dicts"):
        rows_of(step(obs=Batch(a=Batch(b=np.zeros((2, 3))))), 2)
    with pytest.raises(ValueError, match="rew: wanted one row for each of 3 environments"):
        rows_of(step(obs=np.zeros((3, 1)), act=np.zeros(3)), 3)
    with pytest.raises(ValueError, match="rew: wanted finite numbers"):
        rows_of(step(rew=np.array([0.0, np.nan])), 2)
