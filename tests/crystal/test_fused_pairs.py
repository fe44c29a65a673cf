"""The kernels over all pairs say what torch's operations say, on CUDA."""

import pytest
import torch

from crystalrl import kernels
from crystalrl.memory import interference, neighbours
from crystalrl.memory.interference import LOWEST, Scene

pytestmark = [pytest.mark.cuda, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")]


def scene(slots: int, size: int, discrete: bool, contexts: bool, seed: int) -> Scene:
    """Three lanes of states that often coincide, some slots empty."""
    random = torch.Generator().manual_seed(seed)
    shape = (3, slots)
    state = torch.randn(*shape, size, generator=random).round(decimals=1)
    box = 0.3 * torch.randn(*shape, 2, generator=random)
    action = torch.randint(0, 2, (*shape, 1), generator=random).float() if discrete else box
    reward = torch.randint(0, 2, shape, generator=random).float()
    birth = torch.stack([torch.randperm(slots, generator=random) for _ in range(3)])
    phase = torch.randint(0, 4, shape, generator=random).to(torch.uint8)
    new = torch.rand(shape, generator=random) < 0.3
    context = torch.randint(0, 2, shape, generator=random).cuda() if contexts else None
    return Scene(state.cuda(), action.cuda(), reward.cuda(), birth.cuda(), phase.cuda(), new.cuda(), context, discrete)


@pytest.mark.parametrize(("slots", "size"), [(97, 2), (1500, 3), (3001, 12)])
@pytest.mark.parametrize("discrete", [True, False])
@pytest.mark.parametrize("contexts", [True, False])
def test_kernels_agree_with_torch(slots: int, size: int, discrete: bool, contexts: bool, monkeypatch: object) -> None:
    assert isinstance(monkeypatch, pytest.MonkeyPatch)
    monkeypatch.setattr(interference, "BUSY", 1)
    here, found = scene(slots, size, discrete, contexts, slots), {}
    epsilon, delta_r = torch.full((3, 1), 0.317 * size, device="cuda"), torch.full((3, 1), 0.5, device="cuda")
    for how in ("1", "0"):
        monkeypatch.setenv("CRYSTALRL_TRITON", how)
        assert (kernels.fused_for(torch.device("cuda")) is None) == (how == "0")
        flagged = [interference.contradicted(rule, here, epsilon, delta_r) for rule in LOWEST]
        near = neighbours.nearest(here.state + 0.03, here.state, here.occupied, 10)
        apart = neighbours.distances(here.state + 0.03, here.state).gather(2, near.index)
        spacing = interference.spacing(here, 5)
        found[how] = (flagged, spacing, apart.masked_fill(~near.exists, torch.inf))
    fused, plain = found["1"], found["0"]
    for ours, theirs in zip(fused[0], plain[0], strict=True):
        assert theirs.any()
        assert torch.equal(ours, theirs)
    torch.testing.assert_close(fused[1], plain[1], rtol=1e-6, atol=0)
    torch.testing.assert_close(fused[2], plain[2], rtol=1e-5, atol=1e-6)
