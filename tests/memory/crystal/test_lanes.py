"""A lane among others is that seed alone, bit for bit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from crystalrl import Batch, CrystalMemory, CrystalParams, Evaluation, Transition
from tests.experience import FIELDS

OWN = {"alpha": (0.2, 0.5, 0.9), "kappa": (0.05, 0.1, 1.0), "sigma": (0.0, 0.05, 0.2)}
CASES = {
    "anchored": CrystalParams.anchored(time_unit=30, epsilon=0.8),
    "paper": CrystalParams.paper(every_episode=False, epsilon=0.8, tau_evict=3),
    "default": CrystalParams.repaired(time_unit=20, every=30),
    "every episode": CrystalParams.paper(every=90, epsilon=0.8, tau_evict=3),
    "every episode, anchored, slices": CrystalParams.anchored(time_unit=40, every_episode=True, slices=2),
    "random value": CrystalParams.repaired(time_unit=20, every=30, downstream="random", every_episode=True),
}


def evaluate(batch: Batch) -> Evaluation:
    assert isinstance(batch.obs, torch.Tensor)
    return Evaluation(batch.reward * batch.obs[..., 0], {"q": batch.obs * batch.reward[..., None]})


def pick(fields: dict[str, Any], lane: int | None) -> Transition:
    return Transition(**{name: value if lane is None else value[lane : lane + 1] for name, value in fields.items()})


def life(memory: CrystalMemory, lane: int | None, envs: int) -> list[Any]:
    """Everything a lane (or, None, all lanes together) is seen to do."""
    rng, seen = np.random.default_rng(0), []
    for step in range(240):
        fields = {
            "obs": rng.normal(size=(3, envs, 2)).astype(np.float32),
            "action": rng.integers(0, 3, (3, envs)),
            "reward": np.round(rng.normal(size=(3, envs))),
            "next_obs": rng.normal(size=(3, envs, 2)).astype(np.float32),
            "terminated": rng.random((3, envs)) < 0.02,
        }
        valid, error, returns = rng.random((3, envs)) < 0.9, rng.normal(size=(3, 8)), rng.normal(size=(3, envs)) * 9
        mine = slice(None) if lane is None else slice(lane, lane + 1)
        seen.append(memory.add(pick(fields, lane), valid=valid[mine]))
        ended = fields["terminated"][mine]
        if ended.any():
            memory.end_episode(ended, returns[mine])
        if step > 10:
            batch = memory.sample(8)
            memory.update(batch, error[mine])
            seen.append(batch)
        if memory.due:
            memory.consolidate(evaluate)
    memory.check()
    return [*seen, memory.state_dict()]


def part(thing: Any, lane: int) -> Any:
    """The lane of what all lanes together were seen to do."""
    if isinstance(thing, torch.Tensor):
        return thing[lane : lane + 1]
    if isinstance(thing, Batch):
        anchors = [x for a in (thing.anchor or {}).values() for x in (a.target, a.coefficient)]
        return [part(x, lane) for x in (*(getattr(thing, name) for name in FIELDS), *anchors) if x is not None]
    alike = ("memory.slot", "crystal.slot", "ledger.slot", "ledger.filled", "ledger.number", "ledger.highest")
    return {name: part(tensor, lane) for name, tensor in thing.items() if name.startswith(alike)}


def same(one: Any, other: Any) -> bool:
    if isinstance(one, torch.Tensor):
        width = min(one.shape[1], other.shape[1]) if one.dim() > 1 else None  # files hold the used part only
        return torch.equal(one[:, :width], other[:, :width]) if width is not None else torch.equal(one, other)
    if isinstance(one, dict):
        return all(same(one[name], other[name]) for name in one)
    return all(same(a, b) for a, b in zip(one, other, strict=True))


def built(params: CrystalParams, lanes: int, seed: int, envs: int) -> CrystalMemory:
    anchor: dict[str, tuple[int, ...]] = {"q": (2,)} if params.uses_anchors else {}
    return CrystalMemory(
        48, obs=(2,), action=3, params=params, anchor=anchor, lanes=lanes, envs=envs, seed=seed
    )  # fmt: skip


@pytest.mark.parametrize("envs", [1, 2])
@pytest.mark.parametrize("case", list(CASES))
def test_a_lane_equals_its_seed_alone(case: str, envs: int) -> None:
    together = life(built(replace(CASES[case], **OWN), 3, 5, envs), None, envs)
    for lane in range(3):
        mine = {name: values[lane] for name, values in OWN.items()}
        alone = life(built(replace(CASES[case], **mine), 1, 5 + lane, envs), lane, envs)
        for number, (one, other) in enumerate(zip(alone, together, strict=True)):
            assert same(part(one, 0), part(other, lane)), (lane, number)


def test_lanes_that_are_not_due_stay_as_they_are() -> None:
    memory = CrystalMemory(32, obs=(2,), action=3, params=CrystalParams.paper(), lanes=3, seed=0)
    rng = np.random.default_rng(0)
    for step in range(20):
        ends = np.array([[False], [step == 19], [False]])
        obs = rng.normal(size=(3, 1, 2)).astype(np.float32)
        memory.add(Transition(obs, rng.integers(0, 3, (3, 1)), rng.normal(size=(3, 1)), obs, ends))
    batch = memory.sample(8)
    memory.update(batch, rng.normal(size=(3, 8)))
    before = memory.state_dict()
    assert memory.due
    report = memory.consolidate(evaluate)
    after = memory.state_dict()
    assert report.values["evaluated"].tolist() == [0, 20, 0]
    for name in before:
        if ".slot." in name or name == "ledger.highest":
            assert torch.equal(before[name][[0, 2]], after[name][[0, 2]]), name
    assert not torch.equal(before["ledger.slot.c"][1], after["ledger.slot.c"][1])
