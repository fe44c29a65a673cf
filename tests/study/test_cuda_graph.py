"""Training steps never synchronise with the host: shown on the meta device, whose tensors have no values."""

from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from crystalrl import random as random_module
from crystalrl.agents import DQN, SAC, TD3, DQNParams, Rainbow, RainbowParams, SACParams, Spaces, TD3Params
from crystalrl.memory import CrystalMemory
from crystalrl.memory.crystal import ledger as crystal_ledger
from crystalrl.memory.storage import pack
from crystalrl.random import Stream
from crystalrl.study.cuda_graph import BURN_IN, Captured
from crystalrl.study.kinds import METHODS
from crystalrl.study.plan import plan
from crystalrl.study.run import Trainer
from crystalrl.study.spec import RunSpec
from crystalrl.types import Anchor, Batch
from tests.study.test_run import DESIGNS, name, practise

BOOSTED = {"memory": "crystal", "preset": "anchored", "params": {"boost": True, "every_episode": True}}


class Seeds(list[int]):
    def tolist(self) -> list[int]:
        return list(self)


class OnlyHere(TorchDispatchMode):
    """Raises if an operation touches a host tensor."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        for leaf in tree_leaves((args, kwargs, out)):
            assert not isinstance(leaf, torch.Tensor) or leaf.device.type == "meta", (
                f"{func} reads or writes a host tensor"
            )
        return out


@pytest.fixture(autouse=True)
def _without_values(monkeypatch: pytest.MonkeyPatch) -> None:
    """Construction looks at values (keys, pinned buffers, the queue's room); steps must not."""

    def streams(self: Any, seeds: Any, device: Any = "cpu") -> None:
        self.device, self.seeds, self._loops = torch.device(device), Seeds(seeds), None
        self.ticks = torch.zeros(len(Stream), dtype=torch.int64, device=device)
        self.keys = torch.zeros(len(Stream), len(self.seeds), dtype=torch.int64, device=device)

    def border(self: Any, spec: Any, layout: Any) -> None:
        self.spec, self.layout, self.lanes, self.device = spec, layout, spec.lanes, torch.device(spec.device)
        self.corrupt = torch.zeros((), dtype=torch.bool, device=self.device)
        self.lead, self._plain = self._leading_shapes(), True
        self._shapes = {field: [(*lead, *f.shape) for lead in self.lead] for field, f in layout.fields.items()}

    ledger = crystal_ledger.CrystalLedger
    monkeypatch.setattr(CrystalMemory, "exact_up_to", {"meta": 16_384})
    monkeypatch.setattr(random_module.Streams, "__init__", streams)
    monkeypatch.setattr(pack.Packer, "__init__", border)
    monkeypatch.setattr(pack.Packer, "pack", pack.Packer._pack_on_device)
    monkeypatch.setattr(ledger, "rebuild_queue", lambda self: setattr(self, "_room", 1 << 30))
    monkeypatch.setattr(ledger, "refresh_strata", lambda self: setattr(self.strata, "scarce", False))


class Recording:
    """Stands in for a CUDA graph: counts replays and executes nothing."""

    def __init__(self) -> None:
        self.replays = 0

    def replay(self) -> None:
        self.replays += 1


def test_every_call_is_executed_once_and_recording_executes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    captured = Captured(lambda: seen.append("step"), torch.device("meta"))
    captured.records = True
    monkeypatch.setattr(captured, "_warm", captured.step)
    monkeypatch.setattr(captured, "_record", lambda: setattr(captured, "graph", Recording()))
    for _ in range(BURN_IN + 5):
        captured()
    assert len(seen) == BURN_IN + 1
    assert captured.graph.replays == 4


def heads(method: str, stages: int = 4) -> dict[str, object]:
    """A network with a head per task that fits the method, and a reservoir."""
    own = {"recall": {"pop_art": True}, "pnn": {"columns": stages, "width": 8 * stages}}
    return {"agent_params": {"multi_head": True, **own.get(method, {})}, "memory": "reservoir"}


METHOD_DESIGNS = [
    *({"method": method, **heads(method)} for method in METHODS if method not in ("none", "her", "nec", "joint")),
    *(
        {"method": m, "suite": "reach-2", "agent": "sac", **heads(m, 2)}
        for m in ("agem", "si", "clonex", "recall", "pnn")
    ),
    {"method": "joint", "suite": "nav-2"},
    {"method": "her", "suite": "nav-2-goals"},
    {"method": "nec", "agent": "nec"},
]
SUITES = [{"suite": "reach-2-hidden", "agent": "sac"}, {"suite": "reach-2", "agent": "td3"}, {"suite": "drift-2"}]


@pytest.mark.parametrize("design", [*DESIGNS, BOOSTED, *SUITES, *METHOD_DESIGNS], ids=name)
def test_acting_storing_and_learning_never_wait_for_the_device(design: dict[str, object]) -> None:
    (group,) = plan({"row": RunSpec(**{"suite": "nav-2-redefined", "seeds": (0, 1), **design})})
    trainer = Trainer(group, torch.device("meta"))
    trainer.memory._filled = True
    trainer.begin(0)
    trainer.learn()
    with OnlyHere():
        trainer.collect()
        trainer.learn()


AGENTS = {
    "rainbow": (Rainbow, RainbowParams(), Spaces((4,), 3)),
    "rainbow, frames": (Rainbow, RainbowParams(multi_head=True), Spaces((10, 10, 4), 3, 2)),
    "dqn, schedule": (DQN, DQNParams(schedule="cosine", layer_norm=True, dueling=True), Spaces((4,), 3)),
    "sac": (SAC, SACParams(), Spaces((4,), (3,))),
    "sac, heads": (SAC, SACParams(multi_head=True, task_temperature=True), Spaces((4,), (3,), 2)),
    "td3": (TD3, TD3Params(schedule="robbins-monro"), Spaces((4,), (3,))),
}


@pytest.mark.parametrize("name", AGENTS)
def test_agents_never_wait_for_the_device(name: str) -> None:
    made, params, spaces = AGENTS[name]
    agent = made(spaces, params, random_module.Streams([0, 1], "meta"))
    with torch.device("meta"):
        obs, ones = torch.ones(2, 5, *spaces.obs), torch.ones(2, 5)
        count = isinstance(spaces.action, int)
        action = torch.zeros(2, 5, dtype=torch.int64) if count else torch.zeros(2, 5, *spaces.action)
        context, index = torch.zeros(2, 5, dtype=torch.int32), torch.zeros(2, 5, dtype=torch.int64)
        held = {key: Anchor(torch.zeros(2, 5, *shape), ones) for key, shape in agent.anchors.items()}
        epsilon = torch.ones(())
    batch = Batch(obs, action, ones, obs, ones, ones, index, context, held)
    with OnlyHere():
        agent.act(obs, epsilon, context)
        agent.greedy(obs, context)
        agent.update(batch)
        agent.evaluate(batch)


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
@pytest.mark.parametrize("design", [*DESIGNS, BOOSTED], ids=name)
def test_a_recorded_run_learns_as_well_as_one_on_the_cpu(design: dict[str, object], monkeypatch: Any) -> None:
    monkeypatch.undo()
    fields = {"steps": 4000, "capacity": 1000, "batch": 64, "agent_params": {"width": 64}}
    (group,) = plan({"row": RunSpec("nav-1", seeds=tuple(range(32)), **fields, **design)})
    scores = []
    for device in ("cpu", "cuda"):
        trainer = Trainer(group, torch.device(device))
        trainer.begin(0)
        practise(trainer, 500, 25)
        trainer.memory.check()
        scores.append(trainer.score_all().flatten().cpu())
    assert trainer.learn.graph is not None
    here, there = scores
    spread = ((here.var() + there.var()) / len(here)).sqrt()
    assert there.mean() > 0.5
    assert (here.mean() - there.mean()).abs() < 3 * spread


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
@pytest.mark.parametrize(("suite", "agent"), [("pendulum-2", "sac"), ("minatar-breakout", "rainbow")])
def test_environments_on_the_host_step_between_two_recordings(suite: str, agent: str, monkeypatch: Any) -> None:
    """Acting and storing are recorded separately: the same experiences as without recordings. (There are no updates: a
    recorded matrix product may round differently.)
    """
    monkeypatch.undo()
    fields = {"steps": 4000, "capacity": 1000, "batch": 32, "envs": 2, "agent": agent, "memory": "prioritized"}
    (group,) = plan({"row": RunSpec(suite, seeds=(0, 1), **fields, agent_params={"width": 32, "depth": 1})})
    kept = []
    for records in (False, True):
        trainer = Trainer(group, torch.device("cuda"))
        for part in trainer._parts:
            part.records = records
        trainer.begin(0)
        for _ in range(60):
            trainer.collect()
        kept.append(trainer.memory.state_dict())
    assert all(part.graph is not None for part in trainer._parts)
    for field, plain in kept[0].items():
        assert torch.equal(plain, kept[1][field]), field
