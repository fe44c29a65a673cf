"""What a search sees: the stored experiences, or a part of the lanes and slots."""

from __future__ import annotations

import torch

from crystalrl.memory.neighbours.view import padded
from tests.memory.neighbours.walks import uneven, uneven_memory


def test_padded_slots_are_those_of_the_mask_in_order() -> None:
    mask = torch.rand(4, 50, generator=torch.Generator().manual_seed(0)) < torch.tensor([[0.5], [0.0], [1.0], [0.1]])
    slots, real = padded(mask)
    assert slots.shape == real.shape == (4, 50)
    for lane in range(4):
        assert slots[lane, real[lane]].tolist() == mask[lane].nonzero()[:, 0].tolist()
        assert real[lane].tolist() == sorted(real[lane].tolist(), reverse=True)


def test_padded_slots_of_an_empty_mask_are_none() -> None:
    slots, real = padded(torch.zeros(2, 9, dtype=torch.bool))
    assert slots.shape == real.shape == (2, 0)


def test_a_part_of_a_view_is_empty_and_not_due_in_other_lanes() -> None:
    memory = uneven_memory(3, 7)
    uneven(memory, None, range(30))
    view = memory.snapshot()
    assert view.occupied.any(-1).tolist() == [True, True, True]
    part = view.part(torch.tensor([True, False, True]), 40)
    assert part.slots == 40
    assert not part.occupied[1].any()
    assert not part.unevaluated[1].any()
    assert part.due.tolist() == [[True], [False], [True]]
    assert part.due_on_host.tolist() == [True, False, True]
    for lane in (0, 2):
        assert torch.equal(part.phase[lane], view.phase[lane, :40])
        assert torch.equal(part.unevaluated[lane], view.unevaluated[lane, :40])
    assert part.fields["obs"].shape == (3, 40, 2)
    assert torch.equal(part.fields["reward"], view.fields["reward"][:, :40])


def test_the_fields_of_a_view_are_the_stored_experiences() -> None:
    memory = uneven_memory(3, 7)
    uneven(memory, None, range(30))
    view = memory.snapshot()
    for lane in range(3):
        held = memory.experiences(lane=lane)
        assert view.occupied[lane].nonzero()[:, 0].tolist() == held["index"].tolist()
        for name in ("obs", "action", "reward", "next_obs"):
            assert torch.equal(view.fields[name][lane, held["index"]], held[name]), name
