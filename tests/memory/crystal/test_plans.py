"""Planning a consolidation changes nothing; applying it skips what was rewritten since."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from crystalrl import CrystalMemory, CrystalParams
from crystalrl.memory.crystal.consolidate import plan
from crystalrl.memory.crystal.evaluate import evaluate_all
from tests.experience import assert_same_state
from tests.memory.crystal.experience import WithLists, by_reward, feed, memory_of, snapshot, with_output

PRESETS = {
    "default": CrystalParams.repaired(time_unit=20, every=30, slices=2),
    "paper": CrystalParams.paper(tau_evict=3, epsilon=0.8, alpha=0.3),
    "anchored": CrystalParams.anchored(time_unit=20, alpha=0.4),
}


def everything(part: Any, name: str = "memory", seen: set[int] | None = None) -> Iterator[tuple[str, Any]]:
    """Copies of all tensors, arrays and plain values below an object, by path; each object of the package once."""
    seen = set() if seen is None else seen
    if isinstance(part, torch.Tensor | np.ndarray):
        yield name, torch.as_tensor(part).clone()
    elif isinstance(part, int | float | str | None):
        yield name, part
    elif isinstance(part, dict | list | tuple):
        for key, value in part.items() if isinstance(part, dict) else enumerate(part):
            yield from everything(value, f"{name}[{key}]", seen)
    elif type(part).__module__.startswith(("crystalrl", "tests")) and id(part) not in seen:
        seen.add(id(part))
        for key, value in getattr(part, "__dict__", {}).items():
            yield from everything(value, f"{name}.{key}", seen)


def lived(params: CrystalParams, kind: type[CrystalMemory] = CrystalMemory) -> CrystalMemory:
    memory = memory_of(64, params, anchor={"q": (2,)}, kind=kind)
    for turn in range(6):
        feed(memory, 20, seed=turn)
        memory.consolidate(with_output)
    feed(memory, 20, seed=9)
    return memory


@pytest.mark.parametrize("preset", list(PRESETS))
def test_a_plan_changes_nothing_and_applied_it_is_the_consolidation(preset: str) -> None:
    memory, other = lived(PRESETS[preset]), lived(PRESETS[preset])
    before = snapshot(memory)
    memory.plan(with_output)
    planned = memory.plan(with_output)
    assert_same_state(before, memory.state_dict())
    one, two = memory.apply(planned), other.consolidate(with_output)
    assert_same_state(memory.state_dict(), other.state_dict())
    for name, value in one.values.items():
        assert torch.equal(value.nan_to_num(-1), two.values[name].nan_to_num(-1)), name
    memory.check()


@pytest.mark.parametrize("again", [False, True])
def test_a_plan_changes_nothing_where_neighbour_lists_are_kept(again: bool) -> None:
    """The whole memory before and after, its lists and their index among them."""
    pytest.importorskip("faiss")
    memory, other = (lived(PRESETS["anchored"], WithLists) for _ in range(2))
    before, live = memory.state_dict(), dict(everything(memory))
    assert any(name.startswith("vicinity.") for name in before)
    assert any(name.startswith("memory.neighbours.graph.states") for name in live)
    planned = memory.plan(with_output)
    if again:
        planned = memory.plan(with_output)
    assert_same_state(before, memory.state_dict())
    after = dict(everything(memory))
    assert after.keys() == live.keys()
    for name, value in live.items():
        same = torch.equal(value, after[name]) if isinstance(value, torch.Tensor) else value == after[name]
        assert same, name
    memory.apply(planned)
    other.consolidate(with_output)
    assert_same_state(memory.state_dict(), other.state_dict())
    for each in (memory, other):
        feed(each, 20, seed=3)
        each.consolidate(with_output)
    assert_same_state(memory.state_dict(), other.state_dict())


def test_planning_from_a_snapshot_is_a_pure_function() -> None:
    pytest.importorskip("faiss")
    memory = lived(PRESETS["anchored"], WithLists)
    snapshot = memory.snapshot()
    critic, nearby = evaluate_all(snapshot, with_output), memory.neighbours.refresh(snapshot)
    before = memory.state_dict()
    one, two = (plan(snapshot, critic, nearby) for _ in range(2))
    assert_same_state(before, memory.state_dict())
    assert_same_state(vars(snapshot.columns), vars(memory.snapshot().columns))
    assert_same_state(vars(one.columns), vars(two.columns))
    assert torch.equal(one.phase, two.phase)
    assert_same_state(one.anchors, two.anchors)


def test_what_was_rewritten_since_the_plan_stays_as_it_is() -> None:
    memory, other = lived(PRESETS["anchored"]), lived(PRESETS["anchored"])
    planned = memory.plan(with_output)
    written = torch.tensor(feed(memory, 7, seed=11))
    weight = memory.ledger.tree.weight[0, written].clone()
    memory.apply(planned)
    other.consolidate(with_output)
    memory.check()
    assert (memory.ledger.phase[0, written] == 1).all()
    assert (memory.ledger.flags[0, written] == 0).all()
    assert (memory.ledger.c[0, written] == 0).all()
    assert torch.equal(memory.ledger.tree.weight[0, written], weight)
    rest = torch.ones(64, dtype=torch.bool)
    rest[written] = False
    for name in ("c", "utility", "phase", "interference", "flags", "updated", "streak"):
        assert torch.equal(getattr(memory.ledger, name)[0, rest], getattr(other.ledger, name)[0, rest]), name
    assert torch.equal(memory.anchors["q"][0, rest], other.anchors["q"][0, rest])
    assert memory.steps == 7  # given since the plan: they count for the next consolidation
    memory.consolidate(with_output)
    assert (memory.ledger.flags[0, written] == 1).all()
    memory.check()


def test_what_was_pinned_since_the_plan_is_not_evicted() -> None:
    memory = memory_of(64, CrystalParams.repaired(alpha=0.0, sigma=0.0, interference="none", borrow=False))
    feed(memory, 60)
    planned = memory.plan(by_reward)
    gone = (planned.phase[0] == 0) & (memory.ledger.phase[0] > 0)
    assert gone.any()
    memory.pin(gone.nonzero()[:1, 0])
    memory.apply(planned)
    assert memory.ledger.phase[0, gone].tolist() == [1] + [0] * (int(gone.sum()) - 1)
    memory.check()


def test_what_was_pinned_since_the_plan_keeps_its_anchor() -> None:
    """Both experiences would be crystals, and there is room for one; the other is pinned before it is evicted."""
    params = CrystalParams.repaired(capacity=(1.0, 0.0, 1.0), kappa=1.0, alpha=0.0, sigma=0.0, interference="none")
    memory = memory_of(4, params, anchor={"q": (2,)})
    feed(memory, 2, crystallization=0.9)
    memory.consolidate(with_output)
    feed(memory, 2, seed=1, crystallization=0.9)
    planned = memory.plan(with_output)
    gone = ((planned.phase[0] == 0) & (memory.ledger.phase[0] > 0)).nonzero()[:, 0]
    assert len(gone)
    memory.pin(gone)
    memory.apply(planned)
    held = memory.experiences()
    assert set(gone.tolist()) <= set(held["index"].tolist())
    for row, slot in enumerate(held["index"].tolist()):
        assert torch.equal(memory.anchors["q"][0, slot], held["obs"][row]), slot
    memory.check()


def test_a_plan_from_before_another_consolidation_is_refused() -> None:
    memory = lived(PRESETS["anchored"])
    planned = memory.plan(with_output)
    memory.consolidate(with_output)
    before = snapshot(memory)
    with pytest.raises(RuntimeError, match="another"):
        memory.apply(planned)
    assert_same_state(before, memory.state_dict())


def test_a_plan_from_before_a_load_is_refused(tmp_path: Path) -> None:
    memory = lived(PRESETS["anchored"])
    planned = memory.plan(with_output)
    other = lived(PRESETS["anchored"])
    feed(other, 30, seed=5)
    other.save(tmp_path / "other")
    memory.load(tmp_path / "other")
    with pytest.raises(RuntimeError, match="before a load"):
        memory.apply(planned)
    assert_same_state(other.state_dict(), memory.state_dict())


def test_after_a_clear_a_plan_from_before_writes_nothing_and_the_memory_stays_sound() -> None:
    memory = lived(PRESETS["anchored"])
    feed(memory, 5, seed=7)
    planned = memory.plan(with_output)
    memory.clear()
    memory.apply(planned)
    memory.check()
    assert len(memory) == 0
    assert int(memory.steps) == 0
