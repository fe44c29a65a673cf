"""Observations keep their dtype and values; slots may be given back as integers of any width."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from tests.peers.integrated import Sb3Crystal, Sb3Prioritized
from tests.peers.subjects import every_prioritized, every_subject


@every_subject
@pytest.mark.parametrize("dtype", ["uint8", "int8", "int16", "int32", "int64", "float16", "float32"])
def test_observations_come_back_in_the_dtype_they_were_given_in(kind: Any, dtype: str) -> None:
    subject = kind(16, (3,), dtype)
    for number in range(10):
        subject.add(number)
    drawn = subject.draw(64)
    assert drawn.obs.dtype == drawn.next_obs.dtype == np.dtype(dtype)
    np.testing.assert_array_equal(drawn.obs, np.stack([drawn.reward] * 3, 1).astype(dtype))
    np.testing.assert_array_equal(drawn.next_obs, drawn.obs + 1)


@pytest.mark.parametrize("kind", [Sb3Crystal, Sb3Prioritized])
@pytest.mark.parametrize("dtype", ["uint16", "uint32"])
def test_unsigned_observations_of_an_environment_keep_their_values(kind: Any, dtype: str) -> None:
    pytest.importorskip("stable_baselines3")
    subject = kind(16, (3,), dtype)
    for number in range(10):
        subject.add(number)
    drawn = subject.draw(64)
    assert drawn.obs.dtype.kind == "i"
    np.testing.assert_array_equal(drawn.obs, np.stack([drawn.reward] * 3, 1))


@every_subject
def test_images_come_back_as_they_are(kind: Any) -> None:
    subject = kind(16, (1, 6, 6), np.uint8)
    images = np.random.default_rng(0).integers(0, 256, (10, 1, 6, 6), np.uint8)
    for number in range(9):
        subject.put(images[number], float(number), images[number + 1], False)
    drawn = subject.draw(64)
    at = drawn.reward.astype(int)
    np.testing.assert_array_equal(drawn.obs, images[at])
    np.testing.assert_array_equal(drawn.next_obs, images[at + 1])


@every_prioritized
@pytest.mark.parametrize("dtype", [torch.uint8, torch.int16, torch.int32, torch.int64])
def test_errors_are_taken_for_slots_of_any_integer_dtype(kind: Any, dtype: torch.dtype) -> None:
    subject = kind(16)
    for number in range(10):
        subject.add(number)
    drawn = subject.draw(64)
    subject.memory.update(torch.as_tensor(drawn.index).to(dtype), torch.as_tensor(drawn.reward).float() + 1)
    weight = subject.memory.ledger.tree.weight[0].numpy()[drawn.index]
    order = np.argsort(drawn.reward)
    assert (np.diff(weight[order])[np.diff(drawn.reward[order]) > 0] > 0).all()
