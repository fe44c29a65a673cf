"""The crystal memory as a whole: when it is due, what it refuses, saving and loading."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from crystalrl import Batch, CheckpointError, CrystalMemory, CrystalParams, Transition, load_memory
from tests.experience import FIELDS, assert_same_state
from tests.memory.crystal.experience import by_reward, feed, memory_of, snapshot, stream, with_output


def test_due_after_so_many_steps_or_at_the_end_of_an_episode() -> None:
    memory = memory_of(32, CrystalParams.repaired(every=10))
    feed(memory, 9)
    assert not memory.due
    feed(memory, 1)
    assert memory.due
    memory.consolidate(by_reward)
    assert not memory.due
    memory = memory_of(32, CrystalParams.repaired(every=10, every_episode=True))
    memory.add(next(stream(1, terminated=False)))
    assert not memory.due
    memory.add(next(stream(1, terminated=True)))
    assert memory.due
    memory.consolidate(by_reward)
    assert not memory.due
    memory.end_episode()
    assert memory.due


def test_an_emptied_memory_refuses_to_be_sampled() -> None:
    params = CrystalParams.paper(
        alpha=0.0, beta=0.0, sigma=0.0, tau_evict=1, epsilon=10.0, delta_r=0.01, capacity=(1.0, 1.0, 8.0)
    )
    memory = memory_of(32, params)
    feed(memory, 8, crystallization=0.9)
    memory.sample(4)
    memory.consolidate(by_reward)
    assert len(memory) == 0
    with pytest.raises(ValueError, match="empty memory"):
        memory.sample(4)
    memory.check()
    memory.consolidate(by_reward)


LANE_FIELDS = [
    "alpha", "beta", "sigma", "leak", "melt", "settle", "tau_L", "tau_C", "w1", "w2", "w3", "Z", "epsilon", "delta_r",
    "gate", "w_min", "kappa", "anchor_power", "nu", "is_exponent",
]  # fmt: skip


@pytest.mark.parametrize("name", LANE_FIELDS)
def test_values_for_another_number_of_lanes_are_refused_when_the_memory_is_built(name: str) -> None:
    value = {"tau_C": 0.8, "w1": 0.1, "w2": 0.1, "w3": 0.1}.get(name, 0.2)
    params = CrystalParams.repaired(**{name: (value, value)})
    memory_of(16, params, lanes=2, anchor={"q": (2,)})
    with pytest.raises(ValueError, match=f"{name}: wanted one number, or 3"):
        memory_of(16, params, lanes=3, anchor={"q": (2,)})


def test_a_memory_too_small_for_its_environments_is_refused() -> None:
    with pytest.raises(ValueError, match=r"capacity: wanted at least envs × n_step = 12 liquid slots, got 10 of 16"):
        memory_of(16, CrystalParams.repaired(), envs=4, n_step=3)
    memory_of(20, CrystalParams.repaired(), envs=4, n_step=3)


@pytest.mark.parametrize("n_step", [1, 3])
def test_without_room_an_experience_is_refused_before_anything_changes(n_step: int) -> None:
    """Nor do open n-step windows change."""
    memory, steps = memory_of(20, n_step=n_step), list(stream(60))
    while int(memory.ledger.filled[0, 0]) + 20 - len(memory) >= n_step:
        memory.add(steps.pop(), crystallization=0.9)
    before = snapshot(memory)
    refusals = [lambda: memory.add(steps[-1]), *[memory.end_episode] * (n_step > 1)]
    for refused in refusals:
        with pytest.raises(RuntimeError, match=f"wanted {n_step} slots, but only . are not glass, crystal or pinned"):
            refused()
    queue = ("ledger.queue", "ledger.head", "ledger.tail")  # rebuilt, in the same order
    assert_same_state(*({n: t for n, t in s.items() if n not in queue} for s in (before, memory.state_dict())))
    memory.consolidate(by_reward)
    memory.add(steps.pop())


def test_consolidating_an_empty_memory_does_nothing() -> None:
    memory = memory_of(16, CrystalParams.anchored(), anchor={"q": (2,)})
    report = memory.consolidate(lambda batch: pytest.fail("there is nothing to evaluate"))
    assert report.values["evaluated"].tolist() == [0]
    assert np.isfinite(report.scalars()["epsilon"])
    memory.check()


PRESETS = {
    "default": CrystalParams.repaired(time_unit=20, every=30, slices=2),
    "paper": CrystalParams.paper(tau_evict=3, epsilon=0.8, alpha=0.3),
    "anchored": CrystalParams.anchored(time_unit=20, kappa={"q": 0.3}, alpha=(0.1, 0.4)),
}


def built(params: CrystalParams) -> CrystalMemory:
    anchor: dict[str, tuple[int, ...]] = {"q": (2,)} if params.uses_anchors else {}
    return CrystalMemory(
        48, obs=(2,), action=3, params=params, anchor=anchor, lanes=2, envs=2, n_step=2, context=True, seed=9
    )  # fmt: skip


def live(memory: CrystalMemory, seed: int, steps: int, between: int) -> list[Any]:
    rng, seen = np.random.default_rng(seed), []
    for step in range(steps):
        obs, then = rng.normal(size=(2, 2, 2, 2)).astype(np.float32)
        ends = rng.random((2, 2)) < 0.05
        action, reward, context = rng.integers(0, 3, (2, 2)), rng.normal(size=(2, 2)), rng.integers(0, 3, (2, 2))
        memory.add(Transition(obs, action, reward, then, ends, context=context))
        if step > 8:
            batch = memory.sample(8)
            memory.update(batch, rng.normal(size=(2, 8)))
            seen.append(batch)
        if step % between == between - 1:
            report = memory.consolidate(with_output)
            seen.append({name: value.clone() for name, value in report.values.items()})
    return seen


def assert_same_life(one: list[Any], other: list[Any]) -> None:
    for a, b in zip(one, other, strict=True):
        if isinstance(a, Batch):
            for name in FIELDS:
                assert torch.equal(getattr(a, name), getattr(b, name)), name
            for key in a.anchor or {}:
                assert torch.equal(a.anchor[key].target, b.anchor[key].target)  # type: ignore[index]
                assert torch.equal(a.anchor[key].coefficient, b.anchor[key].coefficient)  # type: ignore[index]
        else:
            assert all(torch.equal(a[name].nan_to_num(-1), b[name].nan_to_num(-1)) for name in a)


@pytest.mark.parametrize(
    ("preset", "fresh"),
    [
        *((preset, False) for preset in PRESETS),
        ("anchored", True),
        *(pytest.param(preset, True, marks=pytest.mark.slow) for preset in ("default", "paper")),
    ],
)
def test_the_next_thousand_batches_and_consolidations_are_the_same(preset: str, fresh: bool, tmp_path: Path) -> None:
    memory = built(PRESETS[preset])
    live(memory, 0, 137, 10)
    memory.save(tmp_path / "memory")
    if fresh:
        other = load_memory(tmp_path / "memory")
    else:
        other = built(PRESETS[preset])
        live(other, 3, 20, 7)
        other.load(tmp_path / "memory")
    assert isinstance(other, CrystalMemory)
    assert other.params == memory.params
    other.check()
    assert_same_state(memory.state_dict(), other.state_dict())
    assert_same_life(live(memory, 1, 1010, 100), live(other, 1, 1010, 100))
    assert_same_state(memory.state_dict(), other.state_dict())


def test_a_memory_with_evicted_slots_at_its_end_goes_on_the_same(tmp_path: Path) -> None:
    """What an evicted experience leaves behind is not saved, so it must not matter."""
    params = CrystalParams(alpha=0.0, capacity=(1.0, 1.0, 30.0), time_unit=20, borrow=False)
    memory = memory_of(32, params, anchor={"q": (2,)})
    feed(memory, 32)
    memory.consolidate(lambda b: with_output(b, 1e6))
    assert memory.ledger.used < 32
    memory.save(tmp_path / "memory")
    other = load_memory(tmp_path / "memory")
    for each in (memory, other):
        feed(each, 40, seed=1)  # type: ignore[arg-type]
    one, two = memory.sample(32), other.sample(32)
    assert torch.equal(one.anchor["q"].target, two.anchor["q"].target)  # type: ignore[index]
    memory.consolidate(with_output)
    other.consolidate(with_output)
    assert_same_state(memory.state_dict(), other.state_dict())


def test_a_damaged_file_is_refused_and_nothing_changes(tmp_path: Path) -> None:
    memory = memory_of(32, anchor={"q": (2,)})
    feed(memory, 20)
    memory.consolidate(with_output)
    path = tmp_path / "memory"
    memory.save(path)
    whole = path.read_bytes()
    feed(memory, 5, seed=1)
    before = snapshot(memory)
    rng = np.random.default_rng(0)
    for place in rng.integers(0, len(whole), 12):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises((CheckpointError, ValueError)):
            memory.load(path)
        path.write_bytes(whole[:place])
        with pytest.raises((CheckpointError, ValueError)):
            load_memory(path)
    assert_same_state(before, memory.state_dict())
    memory.check()


def test_a_file_of_another_structure_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "memory"
    memory_of(32, anchor={"q": (2,)}).save(path)
    for other in (memory_of(33, anchor={"q": (2,)}), memory_of(32), memory_of(32, anchor={"q": (3,)})):
        before = snapshot(other)
        with pytest.raises(CheckpointError):
            other.load(path)
        assert_same_state(before, other.state_dict())


def test_a_memory_with_its_own_features_is_loaded_into_one_that_has_them(tmp_path: Path) -> None:
    def features(obs: Any) -> torch.Tensor:
        return torch.cat([obs, obs**2], -1)

    memory = memory_of(32, features=features)
    feed(memory, 20)
    memory.consolidate(by_reward)
    memory.save(tmp_path / "memory")
    with pytest.raises(CheckpointError, match="features"):
        load_memory(tmp_path / "memory")
    other = memory_of(32, features=features)
    other.load(tmp_path / "memory")
    memory.consolidate(by_reward)
    other.consolidate(by_reward)
    assert_same_state(memory.state_dict(), other.state_dict())


def test_clear_forgets_all_but_clock_and_random_streams() -> None:
    memory = memory_of(32, CrystalParams.repaired(time_unit=10), anchor={"q": (2,)})
    feed(memory, 32)
    batch = memory.sample(8)
    memory.update(batch, torch.full((8,), 100.0))
    memory.consolidate(with_output)
    time, consolidations = memory.time.clone(), memory.consolidations.clone()
    memory.clear()
    memory.check()
    assert len(memory) == 0
    assert float(memory.ledger.max_priority) == 1.0
    assert int(memory.grid.count.sum()) == 0
    assert torch.equal(memory.time, time)
    assert torch.equal(memory.consolidations, consolidations)
    assert feed(memory, 3) == [0, 1, 2]


def test_a_memory_whose_observation_parts_are_not_in_order_goes_on_the_same(tmp_path: Path) -> None:
    """The parts differ in scale, so that a grid whose scales were exchanged would count other cells."""
    params = CrystalParams.anchored(time_unit=20, every=20, novelty="grid", w1=0.2, w2=0.8, w3=0.0)
    memory = CrystalMemory(64, obs={"wide": (1,), "narrow": (1,)}, action=2, params=params, seed=0)

    def live(memory: CrystalMemory, seed: int) -> list[torch.Tensor]:
        rng, seen = np.random.default_rng(seed), []
        for _ in range(60):
            obs = {"wide": rng.normal(size=1) * 1000, "narrow": rng.normal(size=1)}
            memory.add(Transition(obs, int(rng.integers(2)), float(rng.normal()), obs, False))
            if memory.due:
                memory.consolidate(lambda batch: batch.reward)
                seen.append(memory.ledger.utility.clone())
        return seen

    live(memory, 0)
    memory.save(tmp_path / "memory")
    loaded = load_memory(tmp_path / "memory")
    assert isinstance(loaded, CrystalMemory)
    for one, other in zip(live(memory, 1), live(loaded, 1), strict=True):
        assert torch.equal(one, other)
