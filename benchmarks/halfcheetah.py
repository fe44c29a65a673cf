"""SAC of the library on HalfCheetah-v5: 100,000 steps, five lanes, a uniform memory, the usual settings.

    python benchmarks/halfcheetah.py --json benchmarks/results/halfcheetah.json

One environment per lane and one update per step; 10,000 steps before the first update, as in the published run of
Stable-Baselines3. Scores are returns of ten test episodes with the policy's mean action; all points of the curve are
stored as they come.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import torch

from crystalrl.study.execution import best_device, prepare
from crystalrl.study.plan import plan
from crystalrl.study.run import Curve, run
from crystalrl.study.spec import RunSpec
from crystalrl.study.store import versions

SPEC = RunSpec(
    "gym:HalfCheetah-v5", agent="sac", memory="uniform", seeds=tuple(range(5)), steps=100_000, capacity=100_000,
    batch=256, envs=1, warmup=10_000, epsilon=0.0, explore=0.1, episodes=10, points=10,
    agent_params={"width": 256, "depth": 2, "learning_rate": 3e-4},
)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, required=True)
    parser.add_argument("--device", default=best_device())
    parser.add_argument("--seeds", type=int, nargs="*", default=SPEC.seeds)
    parser.add_argument("--steps", type=int, default=SPEC.steps)
    options = parser.parse_args()
    prepare(options.device)
    spec = RunSpec(**{**vars(SPEC), "seeds": tuple(options.seeds), "steps": options.steps})
    result: dict[str, Any] = {"seeds": list(spec.seeds), "curve": {}, "machine": versions(options.device)}
    started = time.perf_counter()
    (group,) = plan({"SAC": spec})
    for event in run(group, torch.device(options.device)):
        if isinstance(event, Curve):
            result["curve"][str(event.step)] = [round(score, 1) for score in event.score.tolist()]
            result["seconds"] = round(time.perf_counter() - started, 1)
            print(event.step, result["curve"][str(event.step)], f"{result['seconds']:.0f} s", flush=True)
            options.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
