"""The crystal memory as a whole: when it is due, what it refuses, saving and loading."""

from __future__ import annotations

import numpy as np
import pytest

from crystalrl import CrystalParams
from tests.experience import assert_same_state
from tests.memory.crystal.experience import by_reward, feed, memory_of, snapshot, stream


def test_due_after_so_many_steps_or_at_the_end_of_an_episode() -> None:
    memory = memory_of(32, CrystalParams(every=10))
    feed(memory, 9)
    assert not memory.due
    feed(memory, 1)
    assert memory.due
    memory.consolidate(by_reward)
    assert not memory.due
    memory = memory_of(32, CrystalParams(every=10, every_episode=True))
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
    params = CrystalParams(**{name: (value, value)})
    memory_of(16, params, lanes=2, anchor={"q": (2,)})
    with pytest.raises(ValueError, match=f"{name}: wanted one number, or 3"):
        memory_of(16, params, lanes=3, anchor={"q": (2,)})


def test_a_memory_too_small_for_its_environments_is_refused() -> None:
    with pytest.raises(ValueError, match=r"capacity: wanted at least envs × n_step = 12 liquid slots, got 10 of 16"):
        memory_of(16, envs=4, n_step=3)
    memory_of(20, envs=4, n_step=3)


def test_without_room_an_experience_is_refused_before_anything_changes() -> None:
    memory = memory_of(8)
    feed(memory, 8, crystallization=0.9)
    before = snapshot(memory)
    with pytest.raises(RuntimeError, match="only 0 are not glass, crystal or pinned"):
        feed(memory, 1)
    queue = ("ledger.queue", "ledger.head", "ledger.tail")  # listed anew, in the same order
    assert_same_state(*({n: t for n, t in s.items() if n not in queue} for s in (before, memory.state_dict())))
    memory.consolidate(by_reward)
    assert len(feed(memory, 5)) == 5


def test_features_must_be_vectors() -> None:
    with pytest.raises(ValueError, match="features: wanted vectors"):
        memory_of(16, features=lambda obs: obs.sum(-1))


def test_consolidating_an_empty_memory_does_nothing() -> None:
    memory = memory_of(16, CrystalParams.anchored(), anchor={"q": (2,)})
    report = memory.consolidate(lambda batch: pytest.fail("there is nothing to evaluate"))
    assert report.values["evaluated"].tolist() == [0]
    assert np.isfinite(report.scalars()["epsilon"])
    memory.check()
