"""TorchRL: gradients equal losses written out, storage fills densely, saved buffers go on, mistakes are refused."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tensordict import TensorDict
from torch import Tensor
from torchrl.data import LazyTensorStorage, TensorDictReplayBuffer

from crystalrl import CrystalParams
from crystalrl.integrations.torchrl import CrystalSampler, MemoryLoss
from tests.integrations.test_gradients import difference, varied
from tests.integrations.torchrl_models import (
    ANCHORS,
    LOSSES,
    NO_ANCHORS,
    data,
    explicit,
    loss_module,
    make,
    pull,
    trained,
)


def gradients(loss: Any, of: Tensor) -> list[Tensor]:
    parameters = [p for p in loss.parameters() if p.requires_grad]
    found = torch.autograd.grad(of, parameters, allow_unused=True, retain_graph=True)
    return [torch.zeros_like(p) if g is None else g for p, g in zip(parameters, found, strict=True)]


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("params", [NO_ANCHORS, ANCHORS], ids=["weights", "anchors"])
def test_gradients_are_those_of_losses_written_out(name: str, params: CrystalParams) -> None:
    loss, _sampler, buffer = trained(name, params)
    batch, told = buffer.sample(), []
    assert varied(batch["memory", "weight"])
    loss.report = lambda index, error: told.append((index, error))
    torch.manual_seed(5)
    ours = loss(batch)
    torch.manual_seed(5)
    theirs, error, outputs = explicit(name, loss.loss, batch)
    if params is ANCHORS:
        assert float((batch["memory", "q_strength"] > 0).float().mean()) > 0.3
        theirs |= {f"loss_anchor_{key}": pull(name, key, batch, output) for key, output in outputs.items()}
    assert set(ours.keys()) == set(theirs)
    for key, value in theirs.items():
        assert difference(gradients(loss, ours[key]), gradients(loss, value)) <= 1e-6, key
    torch.testing.assert_close(told[0][1], error, rtol=1e-5, atol=1e-5)
    assert torch.equal(told[0][0], batch["index"])


@pytest.mark.parametrize("name", LOSSES)
def test_anchors_and_td_errors_cost_no_pass_through_a_network_but_a_subclass_is_asked_anew(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the loss computes on its way is used; of a subclass we cannot know what it computes. Both say the same."""
    loss, _sampler, buffer = trained(name)
    batch, layers = buffer.sample(), []
    run = torch.nn.Linear.forward
    monkeypatch.setattr(torch.nn.Linear, "forward", lambda self, x: (layers.append(self), run(self, x))[1])

    def passes(call: Any) -> tuple[Any, int]:
        layers.clear()
        torch.manual_seed(5)
        return call(batch), len(layers)

    _, plain = passes(loss.loss)
    ours, heard = passes(loss)
    kept = vars(loss.loss) | vars(getattr(loss.loss, "actor_network", loss.loss))
    assert heard == plain > 0
    loss.loss.__class__ = type("Own", (type(loss.loss),), {"__module__": "mine"})
    theirs, asked = passes(loss)
    assert asked > plain
    for key, value in ours.items():
        torch.testing.assert_close(value, theirs[key])
        assert difference(gradients(loss, value), gradients(loss, theirs[key])) <= 1e-6, key
    assert not [name for name, value in kept.items() if getattr(value, "__qualname__", "").startswith("_told")]


@pytest.mark.parametrize("name", LOSSES)
def test_a_consolidation_is_told_the_loss_s_own_td_errors_and_outputs(name: str) -> None:
    loss, _sampler, buffer = trained(name)
    batch = buffer.sample()
    state = torch.get_rng_state()
    told = loss.evaluate(batch)
    assert torch.equal(torch.get_rng_state(), state)
    _, error, outputs = explicit(name, loss.loss, batch)
    torch.testing.assert_close(told.td_error, error, rtol=1e-5, atol=1e-5)
    assert set(told.output) == set(outputs)
    for key, output in outputs.items():
        torch.testing.assert_close(told.output[key], output.detach(), rtol=1e-5, atol=1e-5)


def test_storage_fills_densely_and_every_sample_is_what_was_written() -> None:
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
def test_the_memory_over_a_foreign_storage_is_the_memory_over_its_own(
    exact: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Same data, same critic: c, phases, utilities and draws agree with a CrystalMemory that stores the data itself."""
    from crystalrl import CrystalMemory, Transition
    from crystalrl.integrations.timing import consolidate
    from crystalrl.memory.crystal import memory as crystal

    monkeypatch.setitem(crystal.EXACT, "cpu", exact)  # above it neighbour lists are kept
    params = CrystalParams.anchored(time_unit=20, every=50, alpha=2.0)
    loss, sampler, buffer = make("DQN", params, slots=200)
    own = CrystalMemory(200, obs=(3,), action=2, params=params, anchor={"q": (2,)}, envs=50, gamma=1.0, seed=3)
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
        own.update(twin.index, loss.evaluate(batch).td_error)
        assert sampler.due
        sampler.consolidate()
        consolidate(own, lambda given: loss.evaluate(buffer.storage.get(given.index.clamp_max(own.ledger.used - 1))))
        for name in ("c", "utility", "suspicion", "phase"):
            torch.testing.assert_close(getattr(sampler.memory.ledger, name), getattr(own.ledger, name))
    assert (sampler.memory.vicinity is None) == (own.vicinity is None) == (exact > 200)


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


def test_weights_that_are_constant_or_all_zero_count_where_torchrl_s_own_mean_loses_them() -> None:
    """The trap this guards against: TorchRL divides by the sum of the weights."""
    loss, _sampler, buffer = trained("DQN", NO_ANCHORS)
    batch = buffer.sample()
    plain = loss_module("DQN")
    plain.load_state_dict(loss.loss.state_dict())
    for factor in (1.0, 0.5, 0.0):
        batch["memory", "weight"] = torch.full((32,), factor)
        batch["priority_weight"] = torch.full((32,), factor)
        torch.manual_seed(0)
        ours, theirs = float(loss(batch)["loss"].detach()), float(plain(batch)["loss"].detach())
        if factor == 1.0:
            whole = ours
        assert ours == pytest.approx(factor * whole)
        assert theirs == pytest.approx(whole) if factor else theirs != theirs


def test_mistakes_are_refused_with_a_reason() -> None:
    with pytest.raises(ValueError, match="reduction: wanted 'mean' or 'none', got 'sum'"):
        MemoryLoss(loss_module("DQN", reduction="sum"))
    with pytest.raises(TypeError, match="wanted one of DQNLoss, SACLoss, TD3Loss or a subclass, got Linear"):
        MemoryLoss(torch.nn.Linear(1, 1))
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
    with pytest.raises(KeyError, match="wanted one that a CrystalSampler has drawn"):
        loss(data("DQN", 10))
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
