"""Sampler and writer: the storage fills without gaps, saved buffers resume exactly, misuse is refused."""

from __future__ import annotations

import pickle
from copy import deepcopy
from dataclasses import replace
from threading import Event, Thread
from typing import Any

import pytest
import torch
from tensordict import TensorDict
from torchrl.data import LazyTensorStorage, TensorDictReplayBuffer

from crystalrl import CrystalParams
from crystalrl.integrations.torchrl import CrystalSampler, MemoryLoss
from tests.integrations.torchrl_models import GAMMA, LOSSES, NO_ANCHORS, data, loss_module, make, trained


def test_the_storage_fills_without_gaps_and_every_sample_is_what_was_written() -> None:
    loss, sampler, buffer = make("SAC", slots=120)
    written = [data("SAC", 30, k) for k in range(12)]
    used: set[int] = set()
    known = {tuple(row): True for each in written for row in each["observation"].tolist()}
    for each in written:
        slots = buffer.extend(each)
        assert len(slots.unique()) == 30
        used |= set(slots.tolist())
        assert max(used) + 1 == len(used) <= len(buffer)
        assert torch.equal(buffer.storage.get(slots)["observation"], each["observation"])
        batch = buffer.sample()
        assert all(tuple(row) in known for row in batch["observation"].tolist())
        assert torch.equal(buffer.storage.get(batch["index"])["action"], batch["action"])
        loss(batch)
        if sampler.due:
            report = sampler.consolidate()
    sampler.memory.check()
    assert float(report.scalars()["crystal"]) > 0
    kept = sampler.memory.experiences("crystal")
    assert torch.equal(kept["obs"], buffer.storage.get(kept["index"])["observation"])
    assert torch.equal(kept["terminated"], buffer.storage.get(kept["index"])["next", "terminated"][:, 0])


@pytest.mark.parametrize("exact", [16_384, 100], ids=["all pairs", "kept lists"])
def test_a_memory_over_torchrl_s_storage_equals_one_that_stores_the_data_itself(
    exact: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the same data and critic, c, phases, utilities and draws agree."""
    from crystalrl import CrystalMemory, Transition
    from crystalrl.integrations._common import consolidate

    monkeypatch.setattr(CrystalMemory, "exact_up_to", {"cpu": exact})  # above it neighbour lists are kept
    params = CrystalParams.anchored(time_unit=20, every=50, alpha=2.0)
    loss, sampler, buffer = make("DQN", params, slots=200)
    own = CrystalMemory(200, obs=(3,), action=2, params=params, anchor={"advantage": (2,)}, envs=50, gamma=1.0, seed=3)
    own.features.spec = replace(own.spec, envs=1)  # TorchRL does not say how many environments there are
    for k in range(7):
        new = data("DQN", 50, k)
        buffer.extend(new)
        ended = new["next", "terminated"][:, 0], (new["next", "done"] & ~new["next", "terminated"])[:, 0]
        reward, following = new["next", "reward"][:, 0], new["next", "observation"]
        own.add(Transition(new["observation"], new["action"], reward, following, *ended))
        batch, twin = buffer.sample(), own.sample(32)
        assert torch.equal(batch["index"], twin.index)
        assert torch.equal(batch["observation"], twin.obs)
        torch.testing.assert_close(batch["memory", "weight"], twin.weight, rtol=0, atol=0)
        loss(batch)
        own.update(twin, loss.evaluate(batch).td_error)
        assert sampler.due
        sampler.consolidate()
        consolidate(own, lambda given: loss.evaluate(buffer.storage.get(given.index.clamp_max(own.ledger.used - 1))))
        for name in ("c", "utility", "interference", "phase"):
            torch.testing.assert_close(getattr(sampler.memory.ledger, name), getattr(own.ledger, name))
    assert (sampler.memory.neighbours.graph is None) == (own.neighbours.graph is None) == (exact > 200)


@pytest.mark.parametrize("name", LOSSES)
def test_state_dicts_round_trip_exactly(name: str) -> None:
    loss, sampler, buffer = trained(name)
    state = buffer.state_dict()
    again_loss, again_sampler, again = make(name)
    again_loss.load_state_dict(loss.state_dict())
    again.load_state_dict(state)
    for key, tensor in sampler.memory.state_dict().items():
        assert torch.equal(tensor, again_sampler.memory.state_dict()[key]), key
    for _ in range(3):
        one, two = buffer.sample(), again.sample()
        assert all(torch.equal(one[key], two[key]) for key in one.keys(True, True))
    for each in (buffer, again):
        each.extend(data(name, 50, 99))
    assert torch.equal(buffer.sample()["index"], again.sample()["index"])
    for each in (sampler, again_sampler):
        torch.manual_seed(0)
        each.consolidate()
    assert torch.equal(sampler.memory.ledger.c, again_sampler.memory.ledger.c)


@pytest.mark.parametrize("way", ["pickle", "deepcopy"])
@pytest.mark.parametrize("name", LOSSES)
def test_a_copied_buffer_goes_on_exactly_like_its_original(name: str, way: str) -> None:
    loss, sampler, buffer = trained(name)
    again = pickle.loads(pickle.dumps(buffer)) if way == "pickle" else deepcopy(buffer)
    with pytest.raises(RuntimeError, match=r"call sampler\.attach\(loss\)"):
        again.sample()
    again_loss = deepcopy(loss)
    assert again_loss.report is None
    again.sampler.attach(again_loss)
    for k in range(3):
        one, two = buffer.sample(), again.sample()
        assert all(torch.equal(one[key], two[key]) for key in one.keys(True, True))
        for each, drawn in ((loss, one), (again_loss, two)):
            torch.manual_seed(k)
            each(drawn)
        for each in (buffer, again):
            each.extend(data(name, 50, 99 + k))
    for each in (sampler, again.sampler):
        torch.manual_seed(0)
        each.consolidate()
    states = sampler.memory.state_dict(), again.sampler.memory.state_dict()
    differing = [key for key, tensor in states[0].items() if not torch.equal(tensor, states[1][key])]
    assert set(differing) <= {"ledger.slot.claims"}  # a copy restarts the generation counters
    assert again.storage is not buffer.storage
    again.sampler.memory.check()


def test_a_copied_empty_buffer_can_be_filled() -> None:
    loss, _, buffer = make("DQN")
    again = deepcopy(buffer)
    again.sampler.attach(loss)
    again.extend(data("DQN", 5))
    assert (len(again.sampler), len(buffer)) == (5, 0)


def test_a_copy_without_a_loss_loses_nothing_silently() -> None:
    again = deepcopy(trained("DQN")[2])
    for use in (again.state_dict, again.empty, lambda: len(again.sampler), lambda: again.extend(data("DQN", 5))):
        with pytest.raises(RuntimeError, match=r"call sampler\.attach\(loss\)"):
            use()


def test_a_batch_drawn_in_another_thread_waits_for_a_consolidation() -> None:
    loss, sampler, buffer = trained("DQN")
    evaluating, go_on, drawn = Event(), Event(), []

    class Slow(MemoryLoss):
        def evaluate(self, batch: Any) -> Any:
            evaluating.set()
            go_on.wait(10)
            return super().evaluate(batch)

    sampler.attach(Slow(loss.loss))
    threads = [Thread(target=sampler.consolidate), Thread(target=lambda: drawn.append(buffer.sample()))]
    threads[0].start()
    assert evaluating.wait(10)
    threads[1].start()
    threads[1].join(0.3)
    assert not drawn
    go_on.set()
    for thread in threads:
        thread.join(10)
    assert len(drawn) == 1
    sampler.memory.check()


def test_prefetched_batches_are_whole_and_their_errors_are_reported() -> None:
    loss, sampler, _ = make("DQN")
    storage = LazyTensorStorage(300)
    sampler = CrystalSampler(loss, seed=3)
    buffer = TensorDictReplayBuffer(storage=storage, sampler=sampler, writer=sampler.writer, batch_size=32, prefetch=2)
    for k in range(12):
        buffer.extend(data("DQN", 30, k))
        batch = buffer.sample()
        assert torch.isfinite(batch["observation"]).all()
        loss(batch)
        stored = sampler.memory.ledger.error[0, batch["index"]]
        assert bool((stored > 0).any())
    sampler.memory.check()
    buffer.sampler.consolidate()


def test_misuse_is_refused_with_a_reason() -> None:
    with pytest.raises(TypeError, match="wanted a MemoryLoss around your loss module, got DQNLoss"):
        CrystalSampler(loss_module("DQN"))  # type: ignore[arg-type]
    loss, sampler, buffer = make("DQN")
    with pytest.raises(RuntimeError, match="wanted data before anything else"):
        sampler.sample(buffer.storage, 4)
    with pytest.raises(ValueError, match=r"got \[2, 5\]: use data.reshape\(-1\)"):
        buffer.extend(data("DQN", 10).reshape(2, 5))
    bad = data("DQN", 10)
    bad["next", "reward"][3] = float("nan")
    with pytest.raises(ValueError, match="reward: wanted finite numbers"):
        buffer.extend(bad)
    buffer.extend(data("DQN", 10))
    for _ in range(9):
        buffer.sample()
    with pytest.raises(RuntimeError, match="none was given to the MemoryLoss"):
        buffer.sample()
    other = TensorDictReplayBuffer(storage=LazyTensorStorage(10), sampler=CrystalSampler(loss), batch_size=2)
    other.extend(data("DQN", 10))
    with pytest.raises(RuntimeError, match="wanted a replay buffer around it"):
        other.sample()
    with pytest.raises(ValueError, match="wanted ndim=1"):
        TensorDictReplayBuffer(storage=LazyTensorStorage(10, ndim=2), writer=CrystalSampler(loss).writer)
    with pytest.raises(ValueError, match="params: wanted those of the saved memory"):
        make("DQN", NO_ANCHORS)[2].load_state_dict(buffer.state_dict())


def test_one_experience_at_a_time_and_an_emptied_buffer() -> None:
    _loss, sampler, buffer = make("DQN")
    for each in data("DQN", 5).unbind(0):
        buffer.add(each)
    assert len(sampler) == len(buffer) == 5
    assert isinstance(buffer.sample(), TensorDict)
    buffer.empty()
    assert len(sampler) == len(buffer) == 0
    assert buffer.extend(data("DQN", 3)).tolist() == [0, 1, 2]


@pytest.mark.parametrize("prefetch", [None, 3])
def test_errors_of_batches_drawn_ahead_never_reach_an_experience_written_since(prefetch: int | None) -> None:
    """Batches wait in TorchRL's queue, drawn by its threads, while their slots are rewritten."""
    loss = MemoryLoss(loss_module("DQN"))
    sampler = CrystalSampler(loss, NO_ANCHORS, seed=3)
    buffer = TensorDictReplayBuffer(
        storage=LazyTensorStorage(60), sampler=sampler, writer=sampler.writer, batch_size=16, prefetch=prefetch
    )
    buffer.extend(data("DQN", 60))
    loss(buffer.sample())
    late, waiting = 0, [buffer.sample()]
    for k in range(1, 30):
        buffer.extend(data("DQN", 10, k))
        waiting.append(buffer.sample())
        drawn = waiting.pop(0)
        stored = buffer.storage.get(drawn["index"])["observation"]
        same = (stored == drawn["observation"]).all(-1)
        before = sampler.memory.ledger.error[0].clone()
        sampler.update(drawn["index"], torch.full((16,), 10.0 + k))
        learned = sampler.memory.ledger.error[0] == 10.0 + k
        assert set(learned.nonzero()[:, 0].tolist()) == set(drawn["index"][same].tolist())
        assert torch.equal(sampler.memory.ledger.error[0][~learned], before[~learned])
        late += int((~same).sum())
    assert late > 10
    sampler.memory.check()


@pytest.mark.parametrize("known", [True, False], ids=["trajectory ids", "one environment"])
def test_the_return_of_an_episode_boosts_its_experiences(known: bool) -> None:
    """Two environments that collect five steps each; without ids, rows follow each other."""
    _, sampler, buffer = make("DQN", CrystalParams.anchored(boost=True, every=10_000), slots=600)
    wanted, running, first, largest = torch.zeros(600), {}, [0, 1], 0.0
    for k in range(30):
        new = data("DQN", 10, k)
        ids = []
        for row in range(10):
            ids.append(first[row // 5])
            if known and bool(new["next", "done"][row]):
                first[row // 5] += 2
        if known:
            new["collector", "traj_ids"] = torch.tensor(ids)
        slots = buffer.extend(new)
        rewards, gamma = new["next", "reward"][:, 0], GAMMA
        largest = max(largest, float(rewards.abs().max()))
        for row, slot in enumerate(slots.tolist()):
            mine = running.setdefault(ids[row] if known else 0, [])
            mine.append((slot, float(rewards[row])))
            if bool(new["next", "done"][row]):
                total = sum(gamma**t * reward for t, (_, reward) in enumerate(mine))
                wanted[[slot for slot, _ in mine]] = min(max(total * (1 - gamma) / largest, 0.0), 1.0)
                mine.clear()
    assert int((wanted > 0.01).sum()) > 20
    torch.testing.assert_close(sampler.memory.ledger.boost[0], wanted)
