"""SAC of the library on HalfCheetah-v5: 100,000 steps, five lanes, a uniform memory, the usual settings.

One environment per lane and one update per step; 10,000 steps before the first update, as in the published run of
Stable-Baselines3. Scores are returns of ten test episodes with the policy's mean action; all points of the curve are
stored as they come.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from dataclasses import replace

import torch

from benchmarks.harness.pages import measured_on, table
from benchmarks.harness.results import Result, Setting, load
from crystalrl.study.execution import prepare
from crystalrl.study.plan import plan
from crystalrl.study.run import Curve, run
from crystalrl.study.spec import RunSpec
from crystalrl.study.store import versions

SPEC = RunSpec(
    "gym:HalfCheetah-v5", agent="sac", memory="uniform", seeds=tuple(range(5)), steps=100_000, capacity=100_000,
    batch=256, envs=1, warmup=10_000, epsilon=0.0, explore=0.1, episodes=10, points=10,
    agent_params={"width": 256, "depth": 2, "learning_rate": 3e-4},
)  # fmt: skip


def measure(setting: Setting) -> Iterator[Result]:
    prepare(setting.device)
    spec = replace(SPEC, seeds=(0, 1), steps=300, warmup=200, episodes=1) if setting.quick else SPEC
    result: Result = {"seeds": list(spec.seeds), "curve": {}, "machine": versions(setting.device)}
    started = time.perf_counter()
    (group,) = plan({"SAC": spec})
    for event in run(group, torch.device(setting.device)):
        if isinstance(event, Curve):
            result["curve"][str(event.step)] = [round(score, 1) for score in event.score.tolist()]
            result["seconds"] = round(time.perf_counter() - started, 1)
            yield result


def block(result: Result) -> str:
    last = max(result["curve"], key=int)
    stock = [r for r in load("sb3_halfcheetah") if (r["algorithm"], r["buffer"]) == ("SAC", "stock")]
    runs = [
        _summary("ours", "test returns", result["curve"][last], "`python -m benchmarks run halfcheetah`"),
        _summary(
            "Stable-Baselines3, run by us", "test returns at 100,000 steps", [r["score"] for r in stock],
            "`python -m benchmarks run sb3-halfcheetah`",
        ),
        *load("halfcheetah_published"),
    ]  # fmt: skip
    rows = [
        [
            f"{r['who']}, {r['environment']}",
            f"{r['runs']}",
            r["score"],
            *(f"{r[x]:,.0f}" for x in ("low", "mean", "high")),
        ]
        for r in runs
    ]
    lanes = f"{len(result['seeds'])} lanes after {int(last):,} steps, in {result['seconds']:.0f} seconds."
    sources = "Sources: " + "; ".join(f"{run['who']}: {run['source']}" for run in runs)
    head = ["", "runs", "score", "lowest", "mean", "highest"]
    return "\n\n".join([f"{lanes} {measured_on(result['machine'])}", table(head, rows), sources])


def _summary(who: str, score: str, values: list[float], source: str) -> Result:
    """In the form of the published runs."""
    spread = {"low": min(values), "mean": statistics.mean(values), "high": max(values)}
    return {
        "who": who,
        "environment": "HalfCheetah-v5",
        "runs": len(values),
        "score": score,
        **spread,
        "source": source,
    }


def curve_block(result: Result) -> str:
    rows = [[f"{int(step):,}", *(f"{score:,.0f}" for score in scores)] for step, scores in result["curve"].items()]
    return table(["steps", *(f"seed {seed}" for seed in result["seeds"])], rows)
