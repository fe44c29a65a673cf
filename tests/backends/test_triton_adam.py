"""Adam's kernel on CUDA moves parameters as torch's operations do."""

import pytest
import torch

from crystalrl.agents.optimiser import SCHEDULES, LaneAdam

pytestmark = [pytest.mark.cuda, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")]


@pytest.mark.parametrize("schedule", list(SCHEDULES))
@pytest.mark.parametrize("sometimes", [True, False])
def test_the_kernel_agrees_with_torch(schedule: str, sometimes: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = torch.randn(3, 2500, device="cuda")
    found = []
    for backend in ("triton", "torch"):
        monkeypatch.setenv("CRYSTALRL_BACKEND", backend)
        theta, random = rows.clone(), torch.Generator("cuda").manual_seed(0)
        adam = LaneAdam(theta, (1e-2, 1e-3, 3e-2), schedule, horizon=20)
        assert (adam._kernel is None) == (backend == "torch")
        for step in range(30):
            gradient = torch.randn(3, 2500, device="cuda", generator=random)
            adam.step(theta, gradient, torch.tensor(step % 3 == 2, device="cuda") if sometimes else None)
        found.append((theta, adam.first, adam.second))
        assert int(adam.steps) == (10 if sometimes else 30)
    for ours, theirs in zip(*found, strict=True):
        assert not torch.equal(ours, torch.zeros_like(ours))
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)
