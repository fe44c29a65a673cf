"""Kernels over all pairs, compared with torch's operations."""

from __future__ import annotations

import torch

from crystalrl.backends.protocols import Pairs
from crystalrl.memory.neighbours.contradiction import LOWEST_PHASE, contradicted
from crystalrl.memory.neighbours.epsilon import liquid_spacing, nearest_spacing
from crystalrl.memory.neighbours.exact import distances, median_spacing, nearest
from crystalrl.memory.neighbours.experiences import Experiences


def experiences(slots: int, size: int, discrete: bool, contexts: bool, device: str) -> Experiences:
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
    named = {"state": state, "action": action, "reward": reward, "birth": birth, "phase": phase, "unevaluated": new}
    made = {name: x.to(device) for name, x in named.items()}
    return Experiences(**made, context=context, discrete=discrete)


def assert_agree_with_torch(kernels: Pairs | None, here: Experiences) -> None:
    """The kernels flag the same experiences, measure the same scales and find the same neighbours."""
    assert kernels is not None
    size, device, found = here.state.shape[-1], here.state.device, []
    epsilon, delta_r = torch.full((3, 1), 0.317 * size, device=device), torch.full((3, 1), 0.5, device=device)
    for pairs in (kernels, None):
        flagged = [contradicted(rule, here, epsilon, delta_r, pairs) for rule in LOWEST_PHASE]
        near = nearest(here.state + 0.03, here.state, here.occupied, 10, pairs)
        apart = distances(here.state + 0.03, here.state).gather(2, near.index)
        spacing = liquid_spacing(here, 5, pairs, min_rows=1)
        scales = spacing, median_spacing(here.state, here.occupied, pairs), nearest_spacing(here, pairs)
        found.append((flagged, scales, apart.masked_fill(~near.exists, torch.inf)))
    ours, theirs = found
    for one, other in zip(ours[0], theirs[0], strict=True):
        assert other.any()
        assert torch.equal(one, other)
    for one, other in zip(ours[1], theirs[1], strict=True):
        torch.testing.assert_close(one, other, rtol=1e-6, atol=0)
    torch.testing.assert_close(ours[2], theirs[2], rtol=1e-5, atol=1e-6)


def assert_exactly_epsilon_counts(pairs: Pairs | None, device: str) -> None:
    """The distance must be less than ε. A measured ε is just above a distance, so both must be rounded alike. Each lane
    is one pair with its own ε."""
    random = torch.Generator().manual_seed(0)
    state = torch.randn(500, 2, 7, generator=random).to(device)
    action = torch.randn(500, 2, 3, generator=random).to(device)
    reward = torch.tensor([0.0, 1.0], device=device).expand(500, 2).contiguous()
    liquid = torch.ones(500, 2, dtype=torch.uint8, device=device)
    order = torch.arange(2, device=device).expand(500, 2).contiguous()
    here = Experiences(
        state=state, action=action, reward=reward, birth=order, phase=liquid, unevaluated=liquid > 0,
        context=None, discrete=False,
    )  # fmt: skip
    apart, delta_r = median_spacing(state, liquid > 0, pairs, action), torch.full((500, 1), 0.5, device=device)
    assert contradicted("exists", here, nearest_spacing(here, pairs), delta_r, pairs).all()
    assert not contradicted("exists", here, apart, delta_r, pairs).any()
