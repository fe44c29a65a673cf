"""Environment steps with their updates per second: Meta-World, MinAtar and Atari, and one lane next to
Stable-Baselines3's SAC on the same Meta-World task.

On CPU without worker processes the processor time counts, otherwise the wall clock. CRYSTALRL_WORKERS sets the workers.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import gymnasium
import torch

from benchmarks.harness.pages import measured_on, table
from benchmarks.harness.results import Part, Result, Setting, in_parts, machine
from benchmarks.harness.timing import Clock, Job, clock, interleaved, medians, ratio
from crystalrl.study.execution import prepare
from crystalrl.study.plan import plan
from crystalrl.study.run import Trainer
from crystalrl.study.spec import RunSpec
from crystalrl.suites import metaworld
from crystalrl.suites.worker import make

SAC: dict[str, Any] = {"agent": "sac", "batch": 256, "updates": 1.0, "agent_params": {"width": 256, "depth": 3}}
GAMES: dict[str, Any] = {"batch": 32, "updates": 0.25, "envs": 4}
RUNS: dict[str, RunSpec] = {
    "Meta-World, SAC 3 × 256, batch 256": RunSpec("mw-1", envs=1, **SAC),
    "MinAtar, DQN, batch 32, an update every 4 steps": RunSpec("minatar-breakout", agent="dqn", **GAMES),
    "Atari, Rainbow, batch 32, an update every 4 steps": RunSpec(
        "atari-5", agent="rainbow", agent_params={"width": 512, "depth": 1}, **GAMES
    ),
}


@dataclass(frozen=True)
class Effort:
    """Lanes, rounds, and steps of all environments in each round."""

    lanes: int
    rounds: int
    calls: int


def effort(setting: Setting) -> Effort:
    if setting.quick:
        return Effort(1, 2, 2)
    return Effort(48, 7, 200) if setting.device.startswith("cuda") else Effort(4, 7, 20)


def workers() -> int:
    return int(os.environ.get("CRYSTALRL_WORKERS", "0"))


def timer(device: str) -> Clock:
    return time.perf_counter if workers() and device == "cpu" else clock(device)


def learning(spec: RunSpec, lanes: int, device: str) -> Trainer:
    """A run whose memory has enough for updates."""
    (group,) = plan({"": RunSpec(**{**vars(spec), "seeds": tuple(range(lanes)), "capacity": 5_000, "episodes": 1})})
    trainer = Trainer(group, torch.device(device))
    trainer.begin(0)
    for _ in range(spec.batch // spec.envs + 2):
        trainer.collect()
    for _ in range(20 if device.startswith("cuda") else 2):
        trainer.advance(1)
    return trainer


def measured_rates(setting: Setting) -> Result:
    """Steps per second of all lanes together."""
    prepare(setting.device)
    size, found = effort(setting), {}
    for name, spec in RUNS.items():
        trainer = learning(spec, size.lanes, setting.device)
        job = Job(partial(trainer.advance, round(spec.updates * spec.envs)), size.calls)
        seconds = medians(interleaved({name: job}, size.rounds, timer(setting.device)))[name]
        found[name] = size.lanes * spec.envs / seconds
    return {"rates": found, "lanes": size.lanes, "workers": workers(), "device": _device(setting.device)}


def _device(name: str) -> str:
    return torch.cuda.get_device_name() if name.startswith("cuda") else "one CPU core" if not workers() else "CPU"


class Adapted(gymnasium.Env):
    """The Meta-World task as Stable-Baselines3 expects it: each episode has another seed."""

    def __init__(self) -> None:
        self.inner, self.episodes = make(vars(metaworld.benchmark("mw-1").tasks.tasks[0])), 0
        self.observation_space, self.action_space = self.inner.observation_space, self.inner.action_space

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.episodes += 1
        return self.inner.reset(seed=self.episodes if seed is None else seed)

    def step(self, action: Any) -> Any:
        return self.inner.step(action)


def measured_one_lane(setting: Setting) -> Result:
    """Steps per second of one lane and of Stable-Baselines3, in turns, on CPU."""
    from stable_baselines3 import SAC as TheirSAC

    prepare("cpu")
    size = effort(Setting(setting.quick))
    steps = 4 if setting.quick else 100
    ours = learning(RUNS[next(iter(RUNS))], 1, "cpu")
    layers = {"net_arch": [256, 256, 256]}
    theirs = TheirSAC("MlpPolicy", Adapted(), buffer_size=5_000, learning_starts=10, policy_kwargs=layers, device="cpu")
    theirs.learn(300 if not setting.quick else 20)
    jobs = {
        "ours": Job(partial(ours.advance, 1), steps),
        "sb3": Job(partial(theirs.learn, steps, reset_num_timesteps=False)),
    }
    times = interleaved(jobs, size.rounds, clock("cpu"))
    took = medians(times)
    return {
        "one_lane": {"ours": 1 / took["ours"], "sb3": steps / took["sb3"]},
        "one_lane_ratio": ratio([t / steps for t in times["sb3"]], times["ours"]),
        "machine": machine("gymnasium", "mujoco", "metaworld", "ale-py", "minatar", "stable-baselines3"),
    }


def measure(setting: Setting) -> Iterator[Result]:
    parts: dict[str, Part] = {
        "rates": lambda: measured_rates(setting),
        "one-lane": lambda: measured_one_lane(setting),
    }
    return in_parts(setting, parts)


def block(result: Result) -> str:
    rows = [[name, f"{rate:,.0f}"] for name, rate in result["rates"].items()]
    lanes, extra = result["lanes"], f", {result['workers']} workers" if result["workers"] else ""
    rates = table([f"{lanes} lanes on {result['device']}{extra}", "environment steps with updates per second"], rows)
    one = result["one_lane"]
    rows = [["crystalrl, one lane", f"{one['ours']:.0f}"], ["Stable-Baselines3", f"{one['sb3']:.0f}"]]
    beside = table(["SAC 3 × 256 on one Meta-World task, one CPU core", "steps with updates per second"], rows)
    share = f"One lane takes {result['one_lane_ratio']:.2f} times as many steps per second as Stable-Baselines3."
    return "\n\n".join([rates, beside, share, measured_on(result["machine"])])
