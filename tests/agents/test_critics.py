"""Twin critics: which rows of parameters belong to which lane, and what they refuse."""

import pytest
import torch

from crystalrl.agents import SACParams, Spaces
from crystalrl.agents.critics import TwinCritics
from crystalrl.random import Streams
from tests.agents.batches import ACTION, BOX, batch, twin_values


def test_rows_2l_and_2l_plus_1_are_the_twins_of_lane_l() -> None:
    twins, drawn = TwinCritics(BOX, SACParams(width=8, depth=2)), batch()
    theta = twins.initial(Streams([1, 2]))
    assert len({tuple(row) for row in theta[:, :8].tolist()}) == 4  # each starts with parameters of its own
    q = twins(theta, drawn.obs, drawn.action, None)
    assert q.shape == (2, 6, 2)
    for lane in range(2):
        for i in range(6):
            wanted = twin_values(twins, theta, lane, drawn.obs[lane, i], drawn.action[lane, i])
            torch.testing.assert_close(q[lane, i], wanted)


def test_frames_are_refused() -> None:
    with pytest.raises(ValueError, match=r"obs: wanted vectors for box actions, got shape \(10, 10, 4\)"):
        TwinCritics(Spaces((10, 10, 4), (ACTION,)), SACParams())
