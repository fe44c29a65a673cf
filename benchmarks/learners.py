"""Speed of learning: lane-updates per second, one update per step of eight environments, everything included.

    python benchmarks/learners.py [--lanes 1 16 128 416] [--json FILE]

Measured per memory: acting, stepping, storing, drawing, learning, telling the memory the TD errors.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import torch

from crystalrl.study.plan import plan
from crystalrl.study.run import Learner
from crystalrl.study.spec import RunSpec

DESIGNS = {
    "uniform": {"memory": "uniform"},
    "uniform + EWC": {"memory": "uniform", "method": "ewc"},
    "prioritized": {"memory": "prioritized"},
    "reservoir + distillation": {"memory": "reservoir", "method": "distill"},
}


def measure(lanes: int, fields: dict[str, str], device: torch.device, seconds: float) -> tuple[float, float]:
    """Milliseconds of a step, acting and storing alone and with learning."""
    (group,) = plan({"row": RunSpec("nav-8", seeds=tuple(range(lanes)), capacity=4000, **fields)})
    learner = Learner(group, device)
    learner.begin(0)
    for _ in range(40):
        learner.collect()
    for _ in range(40):
        learner.learn()
    collect = timed(learner.collect, device, seconds)
    learn = timed(learner.learn, device, seconds)
    return collect, learn


def timed(step: object, device: torch.device, seconds: float) -> float:
    """Milliseconds per call."""
    count, started = 0, time.perf_counter()
    while time.perf_counter() - started < seconds or count < 5:
        for _ in range(5):
            step()  # type: ignore[operator]
        count += 5
        if device.type == "cuda":
            torch.cuda.synchronize()
    return (time.perf_counter() - started) / count * 1e3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lanes", type=int, nargs="+", default=[1, 16, 128, 416])
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    device, rows = torch.device(options.device), []
    print(
        f"{'design':26} {'lanes':>5} {'act+store ms':>13} {'learn ms':>9} {'lane-updates/s':>15} {'all included':>13}"
    )
    for name, fields in DESIGNS.items():
        for lanes in options.lanes:
            collect, learn = measure(lanes, fields, device, options.seconds)
            rates = [lanes / learn * 1e3, lanes / (collect + learn) * 1e3]
            rows.append({"design": name, "lanes": lanes, "collect_ms": collect, "learn_ms": learn, "rate": rates[0]})
            print(f"{name:26} {lanes:5} {collect:13.3f} {learn:9.3f} {rates[0]:15,.0f} {rates[1]:13,.0f}", flush=True)
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps({"device": str(device), "rows": rows}, indent=1))


if __name__ == "__main__":
    main()
