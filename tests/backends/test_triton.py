"""Triton's kernels give what the loops on CPU give: compiled for CUDA, or interpreted on CPU."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest
import torch

from crystalrl import CrystalMemory, CrystalParams, Evaluation, PrioritizedMemory, ReservoirMemory, Transition
from crystalrl.backends import fused_for
from crystalrl.memory.base import ReplayMemory
from tests.conftest import INTERPRETED

CUDA = torch.cuda.is_available()
LANES, ENVS, SLOTS = 2, 2, 90

pytestmark = [
    pytest.mark.skipif(find_spec("triton") is None, reason="needs triton"),
    pytest.mark.skipif(not CUDA and not INTERPRETED, reason="needs CUDA, or TRITON_INTERPRET=1"),
]

KINDS: dict[str, Any] = {
    "prioritized": lambda **shape: PrioritizedMemory(SLOTS, beta=(0.4, 1.0), **shape),
    "reservoir": lambda **shape: ReservoirMemory(SLOTS, **shape),
    "crystal": lambda **shape: CrystalMemory(SLOTS, params=CrystalParams(time_unit=20, every=30), **shape),
    "anchored": lambda **shape: CrystalMemory(
        SLOTS, params=CrystalParams.anchored(time_unit=30, epsilon=0.8), anchor={"q": (2,)}, **shape
    ),
    "no phases": lambda **shape: CrystalMemory(SLOTS, params=CrystalParams(every=30, phases=False), **shape),
}


def built(kind: str, fused: bool, n_step: int) -> ReplayMemory:
    device = "cuda" if fused and CUDA else "cpu"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CRYSTALRL_TRITON", "0" if not fused else "1" if CUDA else "cpu")
        assert (fused_for(torch.device(device)) is not None) == fused
        memory: ReplayMemory = KINDS[kind](
            obs=(2,), action=3, lanes=LANES, envs=ENVS, n_step=n_step, seed=0, device=device
        )
    return memory


def evaluate(batch: Any) -> Evaluation:
    return Evaluation(batch.reward * batch.obs[..., 0], {"q": batch.obs * batch.reward[..., None]})


def life(memory: ReplayMemory, steps: int) -> list[torch.Tensor]:
    """Slots written and drawn, weights, coefficients of anchors and, at the end, the whole state."""
    rng, seen = np.random.default_rng(0), []
    for step in range(steps):
        fields: dict[str, Any] = {
            "obs": rng.normal(size=(LANES, ENVS, 2)).astype(np.float32),
            "action": rng.integers(0, 3, (LANES, ENVS)),
            "reward": np.round(rng.normal(size=(LANES, ENVS))).astype(np.float32),
            "next_obs": rng.normal(size=(LANES, ENVS, 2)).astype(np.float32),
            "terminated": rng.random((LANES, ENVS)) < 0.05,
        }
        valid, error = rng.random((LANES, ENVS)) < 0.9, torch.from_numpy(rng.normal(size=(LANES, 8)))
        given = {"crystallization": rng.random((LANES, ENVS)).astype(np.float32)}
        trusted = given if isinstance(memory, CrystalMemory) and step % 7 == 3 else {}
        moved = {name: torch.from_numpy(value).to(memory.device) for name, value in fields.items()}
        seen.append(memory.add(Transition(**moved), valid=valid if step % 3 else None, **trusted))
        if step > 10:
            batch = memory.sample(8)
            memory.update(batch.index, error.to(memory.device))
            seen += [batch.index, batch.weight, *(held.coefficient for held in (batch.anchor or {}).values())]
        if memory.due:
            memory.consolidate(evaluate)
    memory.check()
    return [x.cpu() for x in (*seen, *memory.state_dict().values())]


@pytest.mark.parametrize(("kind", "n_step"), [(kind, 1 + (kind == "crystal")) for kind in KINDS])
def test_a_memory_lives_the_same_life_with_triton(kind: str, n_step: int) -> None:
    steps = 200 if CUDA else 60
    one, other = (life(built(kind, fused, n_step), steps) for fused in (False, True))
    assert len(one) == len(other)
    for wanted, got in zip(one, other, strict=True):
        torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), "slot"])
def test_bad_errors_and_unknown_slots_are_told_at_the_next_check(bad: float | str) -> None:
    memory = built("prioritized", True, 1)
    life(memory, 12)
    kept = memory.ledger.tree.weight[1].clone()
    assert not bool(memory.packer.corrupt)
    index = torch.tensor([[0, 1], [2, SLOTS if bad == "slot" else 3]], device=memory.device)
    error = [[1.0, 2.0], [1.0, 4.0 if isinstance(bad, str) else bad]]
    memory.update(index, torch.tensor(error, device=memory.device))
    assert bool(memory.packer.corrupt)
    assert memory.ledger.tree.weight[0, :2].tolist() == pytest.approx([1.0, 2**0.6], rel=1e-5)
    assert float(memory.ledger.tree.weight[1, 2]) == pytest.approx(1.0, rel=1e-5)
    assert torch.equal(memory.ledger.tree.weight[1, 3:], kept[3:])
    memory.ledger.tree.check()
    if CUDA:
        with pytest.raises(ValueError, match="slot"):
            memory.check()


def test_a_stratum_that_holds_nothing_gives_a_slot_that_exists() -> None:
    memory = built("crystal", True, 1)
    stratum = torch.full((LANES, 8), 2, dtype=torch.uint8, device=memory.device)
    uniform = torch.rand(LANES, 8, dtype=torch.float64, device=memory.device)
    slots, _ = memory.ledger.tree.draw(uniform, stratum)
    assert bool(((slots >= 0) & (slots < SLOTS)).all())


@pytest.mark.cuda
@pytest.mark.skipif(not CUDA, reason="needs CUDA")
@pytest.mark.parametrize("kind", ["prioritized", "anchored"])
def test_a_recorded_draw_and_update_is_what_it_is_unrecorded(kind: str) -> None:
    memories = [built(kind, True, 1) for _ in range(2)]
    for memory in memories:
        life(memory, 40)
    error = torch.rand(LANES, 8, device="cuda")

    def work(memory: ReplayMemory) -> torch.Tensor:
        batch = memory.sample(8)
        memory.update(batch.index, error)
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
