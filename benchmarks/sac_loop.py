"""SAC with a memory of 10⁵ experiences: updates per second, beside Stable-Baselines3, and what crystals cost.

Networks of 3 × 256, batches of 256, observations of 17 and actions of 6 numbers (HalfCheetah's sizes). An update draws,
learns and tells the memory the TD errors. Alternatives take turns in one process, so that a busy machine slows all; on
CPU one thread's own time counts.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from plain_sac import ACTION, BATCH, DEPTH, OBS, WIDTH, rounds

from crystalrl.agents import SAC, SACParams, Spaces
from crystalrl.memory import CrystalMemory, PrioritizedMemory
from crystalrl.memory.base import ReplayMemory
from crystalrl.params import CrystalParams
from crystalrl.random import Streams
from crystalrl.study.cuda_graph import BURN_IN, Captured
from crystalrl.types import Transition

SLOTS, ENVS, EVERY = 100_000, 1_000, 5_000
CRYSTALS = {"crystal": CrystalParams(every=EVERY), "crystal, anchored": CrystalParams.anchored(every=EVERY)}


class Loop:
    """SAC and a full memory. `step` is one update; `add` and `consolidate` what a loop does beside it."""

    def __init__(self, kind: str, lanes: int, device: str, slots: int = SLOTS, envs: int = ENVS) -> None:
        self.device, self.lanes, self.slots, self.envs = torch.device(device), lanes, slots, envs
        self.agent = SAC(Spaces((OBS,), (ACTION,)), SACParams(width=WIDTH, depth=DEPTH), Streams(range(lanes), device))
        storage: Any = {"obs": (OBS,), "action": (ACTION,), "lanes": lanes, "envs": envs, "device": device}
        params = CRYSTALS.get(kind)
        anchor = self.agent.anchors if params is not None and params.settle is not None else None
        self.memory: ReplayMemory = (
            PrioritizedMemory(slots, **storage)
            if params is None
            else CrystalMemory(slots, params=params, anchor=anchor, **storage)
        )
        self.random = torch.Generator(device).manual_seed(0)
        self.obs = self._normal(OBS)
        self.fill()
        self.step = Captured(self._learn, self.device)
        for _ in range(BURN_IN + 2):
            self.step()

    def fill(self) -> None:
        """All slots; what crystals there are is as a consolidation would allow."""
        if not isinstance(self.memory, CrystalMemory):
            return self.add(self.slots)
        share = torch.tensor(self.memory.params.capacity).expand(self.lanes, -1)
        for _ in range(self.slots // self.envs):
            phase = torch.multinomial(share, self.envs, replacement=True)
            self.memory.add(self._walk(), crystallization=torch.tensor([0.1, 0.5, 0.9])[phase])
        return None

    def add(self, count: int) -> None:
        """So many experiences per lane."""
        for _ in range(count // self.envs):
            self.memory.add(self._walk())

    def _walk(self) -> Transition:
        """A step of all walks."""
        before = self.obs
        self.obs = 0.98 * before + 0.2 * self._normal(OBS)
        ends = torch.zeros(self.lanes, self.envs, dtype=torch.bool, device=self.device)
        return Transition(before, self._normal(ACTION).tanh(), self._normal(1).squeeze(-1), self.obs, ends, ends)

    def consolidate(self) -> None:
        """As a loop would, when it is due."""
        self.memory.consolidate(self.agent.evaluate)

    def _normal(self, size: int) -> torch.Tensor:
        return torch.randn(self.lanes, self.envs, size, device=self.device, generator=self.random)

    def _learn(self) -> None:
        batch = self.memory.sample(BATCH)
        self.memory.update(batch.index, self.agent.update(batch).td_error)


def updates(device: str, lanes: list[int]) -> list[dict[str, Any]]:
    """Lane-updates per second with a prioritized memory and with crystals."""
    rows = []
    for count in lanes:
        for kind in ("prioritized", *CRYSTALS):
            loop = Loop(kind, count, device)
            ms = statistics.median(rounds({kind: loop.step}, device, 11, 20)[kind])
            rows.append({"memory": kind, "lanes": count, "milliseconds": ms, "updates": count / ms * 1e3})
            print(f"SAC, {kind}, {count} lanes: {rows[-1]['updates']:,.0f} lane-updates/s", flush=True)
            del loop
    return rows


def beside_sb3(device: str, count: int = 11, each: int = 8) -> dict[str, Any]:
    """Gradient steps per second of one learner: Stable-Baselines3's SAC, and ours, in turns."""
    peer = sb3_sac(device)
    if peer is None:
        return {"stable_baselines3": "not installed"}
    version, train = peer
    ours = {kind: Loop(kind, 1, device).step for kind in ("prioritized", "crystal")}
    steps: dict[str, Callable[[], object]] = {"Stable-Baselines3, uniform": train, **ours}
    rounds(steps, device, 1, each)
    times = rounds(steps, device, count, each)
    rates = {name: 1e3 / statistics.median(values) for name, values in times.items()}
    print("gradient steps/s: " + ", ".join(f"{name} {rate:,.1f}" for name, rate in rates.items()), flush=True)
    return {"stable_baselines3": version, "steps_per_second": rates}


def sb3_sac(device: str) -> tuple[str, Callable[[], object]] | None:
    """Its version and one gradient step on a full buffer; None where it is not installed."""
    try:
        import gymnasium
        import numpy as np
        import stable_baselines3
        from stable_baselines3.common.logger import Logger
        from stable_baselines3.common.vec_env import DummyVecEnv
    except ModuleNotFoundError:
        return None

    class Still(gymnasium.Env[Any, Any]):
        """Only spaces: nothing is ever stepped."""

        observation_space = gymnasium.spaces.Box(-10, 10, (OBS,), np.float32)
        action_space = gymnasium.spaces.Box(-1, 1, (ACTION,), np.float32)

    model = stable_baselines3.SAC(
        "MlpPolicy", DummyVecEnv([Still] * 100), buffer_size=SLOTS, device=device, seed=0,
        policy_kwargs={"net_arch": [WIDTH] * DEPTH},
    )  # fmt: skip
    model._logger = Logger(None, [])
    random, buffer = np.random.default_rng(0), model.replay_buffer
    assert buffer is not None
    for _ in range(SLOTS // 100):
        obs, then = random.normal(size=(2, 100, OBS)).astype(np.float32)
        action = random.uniform(-1, 1, (100, ACTION)).astype(np.float32)
        buffer.add(obs, then, action, random.normal(size=100), np.zeros(100, bool), [{}] * 100)
    return stable_baselines3.__version__, lambda: model.train(gradient_steps=1, batch_size=BATCH)


def overhead(device: str, turns: int = 3, count: int = 9, each: int = 20) -> dict[str, Any]:
    """What a step of the loop costs with crystals, consolidation every 5,000 steps included, over the same with a
    prioritized memory; what is not memory or learning (environment, acting) would make it less.

    Each turn stores 5,000 experiences and consolidates; then the loops take updates by turns, and small memories of a
    single environment store by turns.
    """
    kinds = ("prioritized", *CRYSTALS)
    loops, small = ({kind: Loop(kind, 1, device, *size) for kind in kinds} for size in ((SLOTS, ENVS), (2_000, 1)))
    clock = time.process_time if device == "cpu" else time.perf_counter
    whole: dict[str, list[float]] = {kind: [] for kind in CRYSTALS}
    for turn in range(turns + 1):
        for kind in CRYSTALS:
            loops[kind].add(EVERY)
            _wait(device)
            started = clock()
            loops[kind].consolidate()
            _wait(device)
            if turn:  # the first finds all neighbours anew: not what a loop pays as it goes
                whole[kind].append(clock() - started)
    learn = rounds({kind: loop.step for kind, loop in loops.items()}, device, count, each)
    stored = rounds({kind: lambda loop=loop: loop.add(1) for kind, loop in small.items()}, device, count, 5 * each)  # type: ignore[misc]
    step = {kind: statistics.median(learn[kind]) + statistics.median(stored[kind]) for kind in kinds}
    share = {kind: statistics.median(whole[kind]) / EVERY * 1e3 for kind in CRYSTALS}
    dearer = {  # of the same round, so that what the machine does meanwhile cancels
        kind: statistics.median(ours - base for ours, base in zip(learn[kind], learn["prioritized"], strict=True))
        + statistics.median(ours - base for ours, base in zip(stored[kind], stored["prioritized"], strict=True))
        for kind in CRYSTALS
    }
    out = {
        kind: {
            "step_ms": step[kind],
            "consolidation_seconds": statistics.median(whole[kind]),
            "consolidation_ms_per_step": share[kind],
            "overhead": (dearer[kind] + share[kind]) / step["prioritized"],
        }
        for kind in CRYSTALS
    }
    for kind, row in out.items():
        print(f"overhead of {kind}: {row['overhead']:.1%}", {k: round(v, 4) for k, v in row.items()}, flush=True)
    return {"prioritized_step_ms": step["prioritized"], **out}


def _wait(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()
