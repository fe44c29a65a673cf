"""Speed of learning: lane-updates per second, one update per step of eight environments, everything included.

Each design has 4,000 slots, all filled. Timed are acting, stepping and storing (collect); drawing, learning and passing
the TD errors to the memory (learn); and, for crystals, consolidation, spread over the steps between two of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from benchmarks import sac
from benchmarks.harness.pages import table
from benchmarks.harness.results import Part, Result, Setting, in_parts
from benchmarks.harness.timing import Job, clock, interleaved, medians
from crystalrl.study.execution import prepare
from crystalrl.study.plan import plan
from crystalrl.study.run import Trainer
from crystalrl.study.spec import RunSpec

PAPER = {"every": 400, "every_episode": False}
DESIGNS: dict[str, dict[str, Any]] = {
    "uniform": {"memory": "uniform"},
    "uniform + EWC": {"memory": "uniform", "method": "ewc"},
    "prioritized": {"memory": "prioritized"},
    "reservoir + distillation": {"memory": "reservoir", "method": "distill"},
    "crystal, anchored": {"memory": "crystal", "preset": "anchored"},
    "crystal, paper": {"memory": "crystal", "preset": "paper", "params": PAPER},
}
LANES = (1, 16, 128, 416)


def ready(design: str, lanes: int, device: str) -> Trainer:
    """A learner whose memories are full."""
    (group,) = plan({"row": RunSpec("nav-8", seeds=tuple(range(lanes)), capacity=4000, **DESIGNS[design])})
    learner = Trainer(group, torch.device(device))
    learner.begin(0)
    for step in range(520):
        learner.collect()
        if step > 20 and step % 8 == 0:
            learner.learn()
        if learner.memory.due:
            learner.memory.consolidate(learner.agent.evaluate)
    return learner


def speed(design: str, lanes: int, device: str, effort: sac.Effort) -> Result:
    """Milliseconds of a step of all lanes, by part; lane-updates per second of learning alone, and with everything."""
    learner, now = ready(design, lanes, device), clock(device)
    jobs = {"collect": Job(learner.collect, effort.calls), "learn": Job(learner.learn, effort.calls)}
    ms = {**medians(interleaved(jobs, effort.rounds, now), sac.MS), "consolidate": 0.0}
    if DESIGNS[design]["memory"] == "crystal":
        whole = Job(lambda: learner.memory.consolidate(learner.agent.evaluate))
        between = learner.memory.params.interval(4000) / learner.spec.envs
        ms |= medians(interleaved({"consolidate": whole}, effort.rounds, now), sac.MS * between)
    rates = {"updates": lanes / ms["learn"] * 1e3, "all_included": lanes / sum(ms.values()) * 1e3}
    return {"design": design, "lanes": lanes, **ms, **rates}


def measure(setting: Setting, lanes: tuple[int, ...] = LANES) -> Iterator[Result]:
    device, effort = setting.device, sac.QUICK if setting.quick else sac.Effort()
    prepare(device)
    name = torch.cuda.get_device_name() if device.startswith("cuda") else "CPU, one thread"
    origin = {"device": name, "torch": torch.__version__}
    counts = lanes[:1] if setting.quick else lanes
    parts: dict[str, Part] = {
        "sac": lambda: {**origin, "sac": sac.one_lane(device, effort)},
        "updates": lambda: {"updates": sac.updates(device, effort)},
        "beside": lambda: {"beside": sac.with_sb3(device, effort)},
        "overhead": lambda: {"overhead": sac.overhead(device, effort)},
        "rows": lambda: {"rows": [speed(design, n, device, effort) for design in DESIGNS for n in counts]},
    }
    return in_parts(setting, parts)


def block(result: Result) -> str:
    found = {(row["design"], row["lanes"]): row for row in result["rows"]}
    lanes = sorted({count for _, count in found})
    rows = [
        [design, *(f"{found[design, n]['updates']:,.0f} / {found[design, n]['all_included']:,.0f}" for n in lanes)]
        for design in dict.fromkeys(design for design, _ in found)
    ]
    measured = f"Measured on: {result['device']}, torch {result['torch']}."
    return table(["", *(f"{n} lanes" if n > 1 else "1 lane" for n in lanes)], rows) + f"\n\n{measured}"
