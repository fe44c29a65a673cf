"""Batches put together: every field, in order."""

from dataclasses import fields

import torch

from crystalrl.methods.batches import joined, taken
from crystalrl.types import Batch
from tests.agents.batches import anchors, batch


def test_joined_batches_follow_each_other_in_every_field() -> None:
    one = batch(anchor=anchors({"q": (2,)}), context=torch.zeros(2, 6), ticket=None)
    other = batch(anchor=anchors({"q": (2,)}), context=torch.ones(2, 6), ticket=None)
    both = joined(one, other)
    for name in (f.name for f in fields(Batch) if f.name not in ("anchor", "ticket")):
        assert torch.equal(getattr(both, name), torch.cat([getattr(one, name), getattr(other, name)], 1))
    assert torch.equal(both.anchor["q"].target[:, 6:], other.anchor["q"].target)
    assert both.anchor["q"].coefficient.shape == (2, 12)
    assert both.ticket is None


def test_samples_are_taken_lane_by_lane() -> None:
    whole, index = batch(obs=(2, 3)), torch.tensor([[5, 0], [1, 1]])
    part = taken(whole, index)
    for lane in range(2):
        assert torch.equal(part.obs[lane], whole.obs[lane, index[lane]])
        assert torch.equal(part.reward[lane], whole.reward[lane, index[lane]])


def test_dict_observations_are_joined_by_key() -> None:
    one = batch(obs=(3,))
    split = {"a": one.obs[..., :1], "b": one.obs[..., 1:]}
    both = joined(batch(obs=(3,), next_obs=split), batch(obs=(3,), next_obs=split))
    assert torch.equal(both.next_obs["b"][:, 6:], split["b"])
