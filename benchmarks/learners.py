"""Speed of learning: lane-updates per second, one update per step of eight environments, everything included.

    python benchmarks/learners.py [--lanes 1 16 128 416] [--json FILE]

Measured per design with 4,000 slots, all filled: acting, stepping and storing (collect), drawing, learning and telling
the memory the TD errors (learn), and, for crystals, consolidation, spread over the steps between two of them.

First SAC: one lane beside SAC without lanes (`plain_sac.py`), then with memories of 10⁵ experiences, beside
Stable-Baselines3 where it is installed, and what crystals cost (`sac_loop.py`). `--lanes` without numbers measures only
that. What is known so far is stored after each part.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from plain_sac import compare
from sac_loop import beside_sb3, overhead, updates

from crystalrl.study.execution import best_device, prepare
from crystalrl.study.plan import plan
from crystalrl.study.run import Learner
from crystalrl.study.spec import RunSpec

PAPER = {"every": 400, "every_episode": False}
DESIGNS: dict[str, dict[str, object]] = {
    "uniform": {"memory": "uniform"},
    "uniform + EWC": {"memory": "uniform", "method": "ewc"},
    "prioritized": {"memory": "prioritized"},
    "reservoir + distillation": {"memory": "reservoir", "method": "distill"},
    "crystal, anchored": {"memory": "crystal", "preset": "anchored"},
    "crystal, paper": {"memory": "crystal", "preset": "paper", "params": PAPER},
}


@dataclass(frozen=True)
class Speed:
    """Milliseconds of one step of all lanes, by part."""

    design: str
    lanes: int
    collect: float
    learn: float
    consolidate: float

    @property
    def rates(self) -> tuple[float, float]:
        """Lane-updates per second of learning alone, and with everything."""
        return self.lanes / self.learn * 1e3, self.lanes / (self.collect + self.learn + self.consolidate) * 1e3


def measure(design: str, lanes: int, device: torch.device, seconds: float) -> Speed:
    """Fill the memories, then time each part."""
    (group,) = plan({"row": RunSpec("nav-8", seeds=tuple(range(lanes)), capacity=4000, **DESIGNS[design])})  # type: ignore[arg-type]
    learner = Learner(group, device)
    learner.begin(0)
    for step in range(520):
        learner.collect()
        if step > 20 and step % 8 == 0:
            learner.learn()
        if learner.memory.due:
            learner.memory.consolidate(learner.agent.evaluate)
    collect, learn = (timed(part, device, seconds) for part in (learner.collect, learner.learn))
    if DESIGNS[design]["memory"] != "crystal":
        return Speed(design, lanes, collect, learn, 0.0)
    whole = timed(lambda: learner.memory.consolidate(learner.agent.evaluate), device, seconds, at_once=1)
    return Speed(design, lanes, collect, learn, whole * group.spec.envs / learner.memory.params.interval(4000))


def timed(step: Callable[[], object], device: torch.device, seconds: float, at_once: int = 5) -> float:
    """Milliseconds per call."""
    count, started = 0, time.perf_counter()
    while time.perf_counter() - started < seconds or count < at_once:
        for _ in range(at_once):
            step()
        count += at_once
        if device.type == "cuda":
            torch.cuda.synchronize()
    return (time.perf_counter() - started) / count * 1e3


def _name(device: str) -> str:
    return torch.cuda.get_device_name() if device.startswith("cuda") else "CPU, one thread"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lanes", type=int, nargs="*", default=[1, 16, 128, 416])
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--device", default=best_device())
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    prepare(options.device)
    result: dict[str, Any] = {"device": _name(options.device), "torch": torch.__version__}
    result["sac"] = compare(options.device)
    print(*(f"SAC, {name}: {ms:.3f} ms an update" for name, ms in result["sac"].items()), sep="; ", flush=True)
    parts: dict[str, Callable[[], object]] = {
        "updates": lambda: updates(options.device, [1, 50] if options.device == "cuda" else [1]),
        "beside": lambda: beside_sb3(options.device),
        "overhead": lambda: overhead(options.device),
    }
    for name, part in parts.items():
        result[name] = part()
        store(result, options.json)
    print(f"{'ms of a step of all lanes':26} lanes  collect    learn  consolidate  updates/s  all included")
    result["rows"] = []
    for design in DESIGNS:
        for lanes in options.lanes:
            speed = measure(design, lanes, torch.device(options.device), options.seconds)
            shown = f"{speed.collect:8.3f} {speed.learn:8.3f} {speed.consolidate:12.3f}"
            print(f"{design:26} {lanes:5} {shown} {speed.rates[0]:10,.0f} {speed.rates[1]:13,.0f}", flush=True)
            result["rows"].append({**asdict(speed), "updates": speed.rates[0], "all_included": speed.rates[1]})
        store(result, options.json)


def store(result: dict[str, Any], path: Path | None) -> None:
    """Write what is known so far."""
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
