"""Draws by Triton: compiled for CUDA, or interpreted on CPU."""

from __future__ import annotations

import pytest
import torch

from crystalrl.memory.base import ReplayMemory
from tests.backends.lives import CUDA, LANES, NEEDS_TRITON, SLOTS, built, life

pytestmark = NEEDS_TRITON


def test_a_stratum_that_holds_nothing_gives_a_slot_that_exists() -> None:
    memory = built("crystal", "triton", 1)
    stratum = torch.full((LANES, 8), 2, dtype=torch.uint8, device=memory.device)
    uniform = torch.rand(LANES, 8, dtype=torch.float64, device=memory.device)
    slots, _ = memory.ledger.tree.draw(uniform, stratum)
    assert bool(((slots >= 0) & (slots < SLOTS)).all())


@pytest.mark.cuda
@pytest.mark.skipif(not CUDA, reason="needs CUDA")
@pytest.mark.parametrize("kind", ["prioritized", "anchored"])
def test_a_recorded_draw_and_update_is_what_it_is_unrecorded(kind: str) -> None:
    memories = [built(kind, "triton", 1) for _ in range(2)]
    for memory in memories:
        life(memory, 40)
    error = torch.rand(LANES, 8, device="cuda")

    def work(memory: ReplayMemory) -> torch.Tensor:
        batch = memory.sample(8)
        memory.update(batch, error)
        return batch.index

    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        work(memories[0])
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        drawn = work(memories[0])
    work(memories[1])
    for _ in range(20):
        graph.replay()
        assert torch.equal(drawn, work(memories[1]))
    for name, tensor in memories[0].state_dict().items():
        torch.testing.assert_close(tensor, memories[1].state_dict()[name])
