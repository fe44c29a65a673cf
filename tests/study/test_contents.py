"""What memories hold at the end of a stage."""

import torch

from crystalrl import CrystalMemory, Transition, UniformMemory
from crystalrl.study.contents import INSPECTED, contents
from crystalrl.study.plan import plan
from crystalrl.study.spec import RunSpec


def filled(kind: type, slots: int) -> object:
    memory = kind(slots, obs=(2,), action=3, seed=0)
    for step in range(slots):
        memory.add(Transition(torch.full((2,), float(step)), 0, 0.0, torch.zeros(2), False, False))
    return memory


def test_at_most_so_many_experiences_evenly_spaced_and_the_same_each_time() -> None:
    (group,) = plan({"row": RunSpec("nav-2", steps=80)})
    memory = filled(CrystalMemory, 2 * INSPECTED)
    (first,), (second,) = (list(contents(memory, group, 1)) for _ in range(2))  # type: ignore[arg-type]
    assert (first.stage, first.done) == (1, 160)
    assert first.experiences[0]["index"].tolist() == list(range(0, 2 * INSPECTED, 2))
    assert torch.equal(first.experiences[0]["obs"], second.experiences[0]["obs"])


def test_a_memory_without_states_has_none() -> None:
    (group,) = plan({"row": RunSpec("nav-2", steps=80)})
    assert list(contents(filled(UniformMemory, 8), group, 0)) == []  # type: ignore[arg-type]
