"""Which slots are overwritten, and in which order."""

from __future__ import annotations

import torch

from crystalrl import CrystalParams
from crystalrl.dynamics import CRYSTAL, EMPTY, LIQUID
from crystalrl.memory.crystal.write_order import write_order
from tests.memory.crystal.experience import feed, memory_of


def test_full_liquid_gives_up_the_lowest_utility_first_and_unevaluated_ones_last() -> None:
    memory = memory_of(
        32, CrystalParams.repaired(sigma=0.0, interference="none", boost=False, alpha=0.0, w1=1.0, w2=0.0, w3=0.0)
    )
    feed(memory, 16)
    memory.consolidate(lambda batch: 1 + batch.index.float())
    feed(memory, 16, seed=1)  # free slots first
    order = feed(memory, 22, seed=2)
    assert order[:16] == list(range(16))
    assert order[16:] == list(range(16, 22))  # then the oldest of those never evaluated


def test_the_order_is_that_of_a_plain_sort() -> None:
    """Free slots by number, then liquid ones by utility and age, then those not evaluated by age; no others."""
    rng = torch.Generator().manual_seed(0)
    shape = (3, 200)
    phase = torch.randint(EMPTY, CRYSTAL + 1, shape, generator=rng, dtype=torch.uint8)
    pinned, unevaluated = (torch.rand(shape, generator=rng) < 0.3 for _ in range(2))
    utility = torch.rand(shape, generator=rng).round(decimals=1)  # many are equal
    birth = torch.stack([torch.randperm(200, generator=rng) for _ in range(3)])
    order, count = write_order(phase, pinned, unevaluated, utility, birth)
    for lane in range(3):

        def key(slot: int, lane: int = lane) -> tuple[float, ...]:
            if phase[lane, slot] == EMPTY:
                return 0, 0, slot
            age = int(birth[lane, slot])
            return (2, 0, age) if unevaluated[lane, slot] else (1, float(utility[lane, slot]), age)

        free = (phase[lane] == EMPTY) | ((phase[lane] == LIQUID) & ~pinned[lane])
        wanted = sorted(free.nonzero()[:, 0].tolist(), key=key)
        assert order[lane, : int(count[lane])].tolist() == wanted
        assert sorted(order[lane].tolist()) == list(range(200))
