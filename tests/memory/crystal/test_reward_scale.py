"""The unit of rewards does not matter: with all rewards and values multiplied by a number, the same is remembered."""

import pytest
import torch
from torch import Tensor

from crystalrl import CrystalMemory
from crystalrl.params import CrystalParams
from crystalrl.types import Batch, Evaluation, Transition


def error(batch: Batch) -> Tensor:
    return batch.obs.sum(-1) - 1.5


def life(scale: float) -> CrystalMemory:
    """A memory after 1,500 steps with random rewards; the critic's answers are in the unit of the rewards."""
    memory = CrystalMemory(256, params=CrystalParams(alpha=0.3), obs=(3,), action=2, anchor={"q": (2,)}, seed=0)
    random = torch.Generator().manual_seed(3)
    for step in range(1500):
        obs, next_obs, (reward, ended) = (torch.rand(n, generator=random) for n in (3, 3, 2))
        memory.add(
            Transition(obs.numpy(), step % 2, scale * float(reward), next_obs.numpy(), bool(ended < 0.05), False)
        )
        batch = memory.sample(32)
        memory.update(batch, scale * error(batch))
        if step % 100 == 99:
            memory.consolidate(lambda part: Evaluation(scale * error(part), {"q": scale * part.obs[..., :2]}))
    return memory


@pytest.mark.parametrize("scale", [100.0, 0.01])
def test_what_is_kept_drawn_and_held_does_not_depend_on_the_unit_of_rewards(scale: float) -> None:
    plain, scaled = life(1.0), life(scale)
    assert bool((plain.ledger.filled > 0).all())  # in every phase
    assert torch.equal(scaled.ledger.phase, plain.ledger.phase)
    assert torch.equal(scaled.ledger.birth, plain.ledger.birth)
    for name in ("c", "utility", "interference", "held"):
        torch.testing.assert_close(getattr(scaled.ledger, name), getattr(plain.ledger, name), rtol=1e-4, atol=1e-5)
    one, other = plain.sample(512), scaled.sample(512)
    assert torch.equal(one.index, other.index)
    # TINY is added to every |TD error|, in no unit: importance weights feel it where errors are near zero
    torch.testing.assert_close(other.weight, one.weight, rtol=2e-3, atol=1e-5)
    assert one.anchor is not None
    assert other.anchor is not None
    assert bool((one.anchor["q"].coefficient > 0).any())
    torch.testing.assert_close(other.anchor["q"].coefficient, one.anchor["q"].coefficient, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(other.anchor["q"].target, scale * one.anchor["q"].target, rtol=1e-4, atol=1e-5 * scale)
