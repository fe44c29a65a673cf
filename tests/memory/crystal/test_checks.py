"""States of a crystal memory that contradict themselves are named, even where every number is possible alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from crystalrl import CrystalParams
from crystalrl.dynamics import CRYSTAL, EMPTY, GLASS, LIQUID
from crystalrl.memory.crystal.checks import counts, ledger_problems, memory_problems
from crystalrl.memory.storage.checks import part
from tests.memory.crystal.experience import feed, memory_of, with_output

State = dict[str, torch.Tensor]


def state_of() -> State:
    params = CrystalParams.anchored(time_unit=20, every=20, alpha=0.8)
    memory = memory_of(32, params, anchor={"q": (2,)}, n_step=1)
    feed(memory, 20)
    memory.consolidate(with_output)
    feed(memory, 3, crystallization=0.99)
    return memory.state_dict()


STATE = state_of()


def problems(change: Callable[[State], None] = lambda state: None) -> list[str]:
    state = {name: tensor.clone() for name, tensor in STATE.items()}
    change(state)
    found = [*ledger_problems(part(state, "ledger"), 32), *memory_problems(state, state["memory.time"], 1)]
    return [problem.split(":")[0] for problem in found]


def test_a_real_state_has_no_problems() -> None:
    assert problems() == []
    assert set(STATE["ledger.slot.label"][0].tolist()) >= {0, 2}


def test_phases_are_counted() -> None:
    phase = torch.tensor([[EMPTY, LIQUID, LIQUID, GLASS], [CRYSTAL, CRYSTAL, CRYSTAL, EMPTY]])
    assert counts(phase).tolist() == [[2, 1, 0], [0, 0, 3]]


def at(name: str, place: int, value: float) -> Callable[[State], None]:
    def change(state: State) -> None:
        state[name].view(-1)[place] = value

    return change


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (at("ledger.slot.birth", 0, int(STATE["ledger.slot.birth"][0, 1])), "birth"),
        (at("ledger.number", 0, 22), "birth"),
        (at("ledger.queue", 31, int(STATE["ledger.queue"][0, 30])), "queue"),
        (at("ledger.tail", 0, 2), "queue"),
        (at("ledger.head", 0, 0), "queue"),
        (at("ledger.filled", 0, 7), "filled"),
        (at("ledger.slot.label", 0, 255), "filled"),
        (at("memory.time", 0, 1), "updated"),
        (at("crystal.slot.anchor.q", 3, torch.nan), "anchor q"),
        (at("crystal.slot.cell", 3, 1 << 20), "cell"),
    ],
)
def test_contradictions_are_named(change: Any, found: str) -> None:
    assert found in problems(change)
