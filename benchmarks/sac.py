"""SAC with a full memory: updates per second, next to Stable-Baselines3, and what crystals cost.

Networks of 3 × 256, batches of 256, observations of 17 and actions of 6 numbers (HalfCheetah's sizes). An update draws,
learns and passes the TD errors to the memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import version
from statistics import median
from typing import Any

import torch

from benchmarks.harness.pages import table
from benchmarks.harness.results import Result
from benchmarks.harness.timing import Clock, Job, clock, excess, interleaved, medians, seconds
from benchmarks.libraries import sb3
from benchmarks.plain_sac import ACTION, BATCH, DEPTH, OBS, WIDTH, PlainSAC, batches
from crystalrl import CrystalMemory, CrystalParams, PrioritizedMemory, Transition
from crystalrl.agents import SAC, SACParams, Spaces
from crystalrl.random import Streams
from crystalrl.study.cuda_graph import BURN_IN, Captured

EVERY = 5_000
CRYSTALS = {"crystal": CrystalParams.repaired(every=EVERY), "crystal, anchored": CrystalParams.anchored(every=EVERY)}
MS = 1e-3


@dataclass(frozen=True)
class Effort:
    """Experiences per lane, rounds, and updates in each."""

    slots: int = 100_000
    rounds: int = 11
    calls: int = 20


QUICK = Effort(5_000, 2, 2)


class Loop:
    """SAC and a full memory. `step` is one update; `add` and `consolidate` are what else a training loop does."""

    def __init__(self, kind: str, lanes: int, device: str, slots: int, envs: int = 1_000) -> None:
        self.device, self.lanes, self.slots, self.envs = torch.device(device), lanes, slots, envs
        self.agent = SAC(Spaces((OBS,), (ACTION,)), SACParams(width=WIDTH, depth=DEPTH), Streams(range(lanes), device))
        self.memory = self._memory(CRYSTALS.get(kind))
        self.random = torch.Generator(device).manual_seed(0)
        self.obs = self._normal(OBS)
        self.fill()
        self.step = Captured(self._learn, self.device)
        for _ in range(BURN_IN + 2):
            self.step()

    def _memory(self, params: CrystalParams | None) -> PrioritizedMemory | CrystalMemory:
        storage: Any = {"obs": (OBS,), "action": (ACTION,), "lanes": self.lanes, "envs": self.envs}
        if params is None:
            return PrioritizedMemory(self.slots, device=self.device, **storage)
        anchor = self.agent.anchors if params.settle is not None else None
        return CrystalMemory(self.slots, params=params, anchor=anchor, device=self.device, **storage)

    def fill(self) -> None:
        """Use all slots; crystal memories get the shares of phases that a consolidation would allow."""
        if not isinstance(self.memory, CrystalMemory):
            self.add(self.slots)
            return
        share = torch.tensor(self.memory.params.capacity).expand(self.lanes, -1)
        for _ in range(self.slots // self.envs):
            phase = torch.multinomial(share, self.envs, replacement=True)
            self.memory.add(self._walk(), crystallization=torch.tensor([0.1, 0.5, 0.9])[phase])

    def add(self, count: int) -> None:
        """Store `count` experiences per lane."""
        for _ in range(count // self.envs):
            self.memory.add(self._walk())

    def _walk(self) -> Transition:
        """One step of all random walks."""
        before = self.obs
        self.obs = 0.98 * before + 0.2 * self._normal(OBS)
        ends = torch.zeros(self.lanes, self.envs, dtype=torch.bool, device=self.device)
        return Transition(before, self._normal(ACTION).tanh(), self._normal(1).squeeze(-1), self.obs, ends, ends)

    def consolidate(self) -> None:
        self.memory.consolidate(self.agent.evaluate)

    def _normal(self, size: int) -> torch.Tensor:
        return torch.randn(self.lanes, self.envs, size, device=self.device, generator=self.random)

    def _learn(self) -> None:
        batch = self.memory.sample(BATCH)
        self.memory.update(batch, self.agent.update(batch).td_error)


def one_lane(device: str, effort: Effort) -> dict[str, float]:
    """Median milliseconds of an update: plain modules, and one lane of ours, on the same batch."""
    plain, lane = PlainSAC(device), SAC(Spaces((OBS,), (ACTION,)), SACParams(), Streams([0], device))
    batch, with_lane = batches(device)
    steps = {"plain modules": lambda: plain.update(batch), "one lane": lambda: lane.update(with_lane)}
    jobs = {name: Job(step, effort.calls) for name, step in steps.items()}
    return medians(interleaved(jobs, effort.rounds, clock(device), warmup=2), MS)


def updates(device: str, effort: Effort) -> list[dict[str, Any]]:
    """Lane-updates per second with a prioritized memory and with crystals."""
    rows = []
    for lanes in (1, 50) if device == "cuda" else (1,):
        for kind in ("prioritized", *CRYSTALS):
            job = Job(Loop(kind, lanes, device, effort.slots).step, effort.calls)
            ms = medians(interleaved({kind: job}, effort.rounds, clock(device)), MS)[kind]
            rows.append({"memory": kind, "lanes": lanes, "milliseconds": ms, "updates": lanes / ms * 1e3})
    return rows


def with_sb3(device: str, effort: Effort) -> Result:
    """Gradient steps per second of one learner: SAC of Stable-Baselines3, and ours, in turns."""
    try:
        peer = sb3.model("SAC", "stock", effort.slots, [WIDTH] * DEPTH, device)
    except ModuleNotFoundError:
        return {"stable_baselines3": "not installed"}
    steps = {"Stable-Baselines3, uniform": lambda: peer.train(gradient_steps=1, batch_size=BATCH)}
    steps |= {kind: Loop(kind, 1, device, effort.slots).step for kind in ("prioritized", "crystal")}
    jobs = {name: Job(step, effort.calls) for name, step in steps.items()}
    times = medians(interleaved(jobs, effort.rounds, clock(device)))
    rates = {name: 1 / taken for name, taken in times.items()}
    return {"stable_baselines3": version("stable-baselines3"), "steps_per_second": rates}


def overhead(device: str, effort: Effort) -> Result:
    """What a step of a training loop costs with crystals, consolidation every 5,000 steps included, compared with a
    prioritized memory. Environment and acting are left out; they would make the share smaller. Storing is timed with
    small memories of a single environment.
    """
    kinds, now = ("prioritized", *CRYSTALS), clock(device)
    loops = {kind: Loop(kind, 1, device, effort.slots) for kind in kinds}
    small = {kind: Loop(kind, 1, device, 2_000, envs=1) for kind in kinds}
    whole = consolidations({kind: loops[kind] for kind in CRYSTALS}, now)
    learn = interleaved({kind: Job(loop.step, effort.calls) for kind, loop in loops.items()}, effort.rounds, now)
    adding = {kind: Job(lambda loop=loop: loop.add(1), 5 * effort.calls) for kind, loop in small.items()}  # type: ignore[misc]
    stored = interleaved(adding, effort.rounds, now)
    step = {kind: (median(learn[kind]) + median(stored[kind])) / MS for kind in kinds}
    rows: Result = {"prioritized_step_ms": step["prioritized"]}
    for kind in CRYSTALS:
        more = (excess(learn[kind], learn["prioritized"]) + excess(stored[kind], stored["prioritized"])) / MS
        share = whole[kind] / EVERY / MS
        rows[kind] = {"step_ms": step[kind], "consolidation_seconds": whole[kind], "consolidation_ms_per_step": share}
        rows[kind]["overhead"] = (more + share) / step["prioritized"]
    return rows


def consolidations(loops: dict[str, Loop], now: Clock, rounds: int = 3) -> dict[str, float]:
    """Median seconds, in turns. The first one, which finds all neighbours from scratch, does not count."""
    taken: dict[str, list[float]] = {kind: [] for kind in loops}
    for _ in range(rounds + 1):
        for kind, loop in loops.items():
            loop.add(EVERY)
            taken[kind].append(seconds(loop.consolidate, now))
    return {kind: median(times[1:]) for kind, times in taken.items()}


TARGETS = {("prioritized", 1): "≥ 1,000", ("prioritized", 50): "≥ 20,000"}
"""On a GPU."""


def updates_block(result: Result) -> str:
    targets = TARGETS if "NVIDIA" in result["device"] else {}
    rows = [
        [row["memory"], str(row["lanes"]), f"{row['milliseconds']:.3f} ms", f"{row['updates']:,.0f}",
         targets.get((row["memory"], row["lanes"]), "")]
        for row in result["updates"]
    ]  # fmt: skip
    return table(["memory", "lanes", "one update of all lanes", "lane-updates/s", "target"], rows)


def sb3_block(result: Result) -> str:
    found = result["beside"]
    rates = found.get("steps_per_second", {})
    peer = next(iter(rates.values()), 1.0)
    rows = [[name, f"{rate:,.1f}", f"{rate / peer:.2f}"] for name, rate in rates.items()]
    head = ["one learner", "gradient steps/s", "÷ Stable-Baselines3"]
    return table(head, rows) + f"\n\nStable-Baselines3: {found['stable_baselines3']}."


def overhead_block(result: Result) -> str:
    rows = [["prioritized", f"{result['overhead']['prioritized_step_ms']:.3f} ms", "", "", ""]]
    for name, row in result["overhead"].items():
        if isinstance(row, dict):
            step, whole = f"{row['step_ms']:.3f} ms", f"{row['consolidation_seconds']:.2f} s"
            rows.append([name, step, whole, f"{row['overhead']:+.1%}", "≤ 5 %"])
    return table(["memory", "step", "consolidation", "over prioritized", "target"], rows)


def one_lane_block(result: Result) -> str:
    times = result["sac"]
    rows = [[name, f"{ms:.2f} ms", f"{ms / times['plain modules']:.3f}"] for name, ms in times.items()]
    measured = f"Measured on: {result['device']}, torch {result['torch']}."
    return table(["", "time", "÷ plain modules"], rows) + f"\n\n{measured}"
