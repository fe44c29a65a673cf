"""The kernels over all pairs, numba's on CPU and Triton's on CUDA, say what torch's operations say."""

from typing import Any

import pytest
import torch

from crystalrl import backends
from crystalrl.memory.crystal import interference
from crystalrl.memory.crystal.interference import LOWEST, Scene
from crystalrl.memory.neighbours import exact as neighbours

CUDA = [pytest.mark.cuda, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")]
DEVICES = ["cpu", pytest.param("cuda", marks=CUDA)]


def scene(slots: int, size: int, discrete: bool, contexts: bool, device: str) -> Scene:
    """Three lanes of states that often coincide, some slots empty."""
    random = torch.Generator().manual_seed(slots)
    shape = (3, slots)
    state = torch.randn(*shape, size, generator=random).round(decimals=1)
    box = 0.3 * torch.randn(*shape, 2, generator=random)
    action = torch.randint(0, 2, (*shape, 1), generator=random).float() if discrete else box
    reward = torch.randint(0, 2, shape, generator=random).float()
    birth = torch.stack([torch.randperm(slots, generator=random) for _ in range(3)])
    phase = torch.randint(0, 4, shape, generator=random).to(torch.uint8)
    new = torch.rand(shape, generator=random) < 0.3
    context = torch.randint(0, 2, shape, generator=random).to(device) if contexts else None
    made = (x.to(device) for x in (state, action, reward, birth, phase, new))
    return Scene(*made, context, discrete)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("slots", "size"), [(97, 2), (1500, 3), (3001, 12)])
@pytest.mark.parametrize("discrete", [True, False])
@pytest.mark.parametrize("contexts", [True, False])
def test_kernels_agree_with_torch(
    device: str, slots: int, size: int, discrete: bool, contexts: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(interference, "BUSY", 1)
    here, found = scene(slots, size, discrete, contexts, device), []
    epsilon, delta_r = torch.full((3, 1), 0.317 * size, device=device), torch.full((3, 1), 0.5, device=device)
    assert backends.pairs_for(torch.device(device)) is not None
    for _ in range(2):
        flagged = [interference.contradicted(rule, here, epsilon, delta_r) for rule in LOWEST]
        near = neighbours.nearest(here.state + 0.03, here.state, here.occupied, 10)
        apart = neighbours.distances(here.state + 0.03, here.state).gather(2, near.index)
        scales = interference.spacing(here, 5), neighbours.median_spacing(here.state, here.occupied)
        found.append((flagged, scales, apart.masked_fill(~near.exists, torch.inf)))
        monkeypatch.setattr(backends, "pairs_for", lambda device: None)
    ours, theirs = found
    for one, other in zip(ours[0], theirs[0], strict=True):
        assert other.any()
        assert torch.equal(one, other)
    for one, other in zip(ours[1], theirs[1], strict=True):
        torch.testing.assert_close(one, other, rtol=1e-6, atol=0)
    torch.testing.assert_close(ours[2], theirs[2], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("device", DEVICES)
def test_what_lies_exactly_epsilon_away_counts(device: str) -> None:
    """ε is itself a measured distance, so no rounding may come between the two: of pairs, each lane's ε is its own."""
    random = torch.Generator().manual_seed(0)
    state = torch.randn(500, 2, 7, generator=random).to(device)
    nothing: Any = torch.zeros(500, 2, device=device)
    reward = torch.tensor([0.0, 1.0], device=device).expand(500, 2).contiguous()
    liquid = torch.ones(500, 2, dtype=torch.uint8, device=device)
    order = torch.arange(2, device=device).expand(500, 2).contiguous()
    here = Scene(state, nothing[..., None], reward, order, liquid, liquid > 0, None, discrete=True)
    epsilon, delta_r = neighbours.median_spacing(state, liquid > 0), torch.full((500, 1), 0.5, device=device)
    assert interference.contradicted("exists", here, epsilon, delta_r).all()
    assert not interference.contradicted("exists", here, epsilon * (1 - 1e-6), delta_r).any()
