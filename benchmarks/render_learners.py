"""Sections of docs/benchmarks.md on learners; `render.py` writes them."""

from __future__ import annotations

import statistics
from typing import Any


def table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def learners(result: dict[str, Any]) -> str:
    parts = ["## Learners"]
    if result.get("rows"):
        counts = sorted({row["lanes"] for row in result["rows"]})
        found = {(row["design"], row["lanes"]): row for row in result["rows"]}
        rows = [
            [design, *(f"{found[design, n]['updates']:,.0f} / {found[design, n]['all_included']:,.0f}" for n in counts)]
            for design in dict.fromkeys(row["design"] for row in result["rows"])
        ]
        parts += [
            "Lane-updates per second on `nav-8` with 4,000 slots and batches of 128: the update alone (draw, learn, "
            "tell the memory) / all included (acting, stepping eight environments, storing, consolidating).",
            table(["", *(f"{n} lanes" if n > 1 else "1 lane" for n in counts)], rows),
        ]
    origin = f"Measured on: {result['device']}, torch {result['torch']}. `python benchmarks/learners.py`"
    return "\n\n".join([*parts, *sac_loop(result), origin])


GOALS = {("prioritized", 1): "≥ 1,000", ("prioritized", 50): "≥ 20,000"}


def sac_loop(result: dict[str, Any]) -> list[str]:
    """SAC with full memories: updates, the peer, and what crystals cost; goals are those of a GPU."""
    parts, gpu = [], "NVIDIA" in result["device"]
    if "updates" in result:
        rows = [
            [
                row["memory"],
                str(row["lanes"]),
                f"{row['milliseconds']:.3f} ms",
                f"{row['updates']:,.0f}",
                GOALS.get((row["memory"], row["lanes"]), "") if gpu else "",
            ]
            for row in result["updates"]
        ]
        parts += [
            "SAC, 3 × 256, batch 256, observations of 17 and actions of 6 numbers, memories of 10⁵ experiences; an "
            "update draws, learns and tells the memory the TD errors:",
            table(["memory", "lanes", "one update of all", "lane-updates/s", "goal"], rows),
        ]
    if "beside" in result:
        rates = result["beside"].get("steps_per_second", {})
        peer = next(iter(rates.values()), 1.0)
        rows = [[name, f"{rate:,.1f}", f"{rate / peer:.2f}"] for name, rate in rates.items()]
        version = result["beside"]["stable_baselines3"]
        parts.append(f"The same networks and batches in Stable-Baselines3 ({version}), in turns in the same process:")
        if rows:
            parts.append(table(["one learner", "gradient steps/s", "over Stable-Baselines3"], rows))
    if "overhead" in result:
        own = {name: row for name, row in result["overhead"].items() if isinstance(row, dict)}
        rows = [
            [
                name,
                f"{row['step_ms']:.3f} ms",
                f"{row['consolidation_seconds']:.2f} s",
                f"{row['overhead']:+.1%}",
                "≤ 5 %",
            ]
            for name, row in own.items()
        ]
        rows.insert(0, ["prioritized", f"{result['overhead']['prioritized_step_ms']:.3f} ms", "", "", ""])
        parts += [
            "What crystals cost in a loop of SAC: store, draw, learn, update; consolidation every 5,000 steps, spread "
            "over them. Environment and acting are not counted, which would make the share smaller.",
            table(["memory, 10⁵ slots", "step", "consolidation", "over prioritized", "goal"], rows),
        ]
    return parts


def one_lane(result: dict[str, Any]) -> str:
    times = result["sac"]
    rows = [[name, f"{ms:.2f} ms", f"{ms / times['plain modules']:.3f}"] for name, ms in times.items()]
    return "\n\n".join(
        [
            "## What lanes cost a single learner",
            "One update of SAC, 3 × 256, batch 256, observations of 17 and actions of 6 numbers: one lane beside "
            "the same written with plain modules, in turns in one process.",
            table(["", "time", "share of plain"], rows),
            *sac_loop(result),
            f"Measured on: {result['device']}, process time, torch {result['torch']}. "
            "`python benchmarks/learners.py --lanes --device cpu --json benchmarks/results/one_lane.json`",
        ]
    )


def halfcheetah(result: dict[str, Any], others: list[dict[str, Any]]) -> str:
    last = max(result["curve"], key=int)
    own = result["curve"][last]
    rows = [
        ["ours, HalfCheetah-v5", f"{len(own)}", "test returns", *_range(min(own), statistics.mean(own), max(own))],
        *(
            [f"{run['who']}, {run['environment']}", f"{run['runs']}", run["score"], *_range(*_ends(run))]
            for run in others
        ),
    ]
    curve = [[f"{int(step):,}", *(f"{score:,.0f}" for score in result["curve"][step])] for step in result["curve"]]
    machine = ", ".join(f"{name} {value}" for name, value in result["machine"].items())
    sources = "; ".join(f"{run['who']}: {run['source']}" for run in others)
    return "\n\n".join(
        [
            "## SAC on HalfCheetah",
            f"{len(own)} lanes after {int(last):,} steps, 2 × 256, one update per step, a uniform memory; ten test "
            f"episodes each. It took {result['seconds']:.0f} seconds. CleanRL publishes its curve as a picture and a "
            "number for a million steps only, so it is not in the table.",
            table(["who", "runs", "what", "lowest", "mean", "highest"], rows),
            "Every lane:",
            table(["steps", *(f"seed {seed}" for seed in result["seeds"])], curve),
            f"Measured on: {machine}. `python benchmarks/halfcheetah.py --json benchmarks/results/halfcheetah.json`. "
            f"Others: {sources}",
        ]
    )


def stock_sac(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Stable-Baselines3's own SAC of `sb3_equivalence.py`, in the form of the published runs."""
    scores = [run["score"] for run in runs if (run["algorithm"], run["buffer"]) == ("SAC", "stock")]
    return {
        "who": "Stable-Baselines3, run by us",
        "environment": "HalfCheetah-v5",
        "runs": len(scores),
        "score": "test returns at 100,000 steps",
        "low": min(scores),
        "mean": statistics.mean(scores),
        "high": max(scores),
        "source": "`python benchmarks/sb3_equivalence.py --task halfcheetah`",
    }


def _ends(run: dict[str, Any]) -> tuple[float, float, float]:
    return run["low"], run["mean"], run["high"]


def _range(low: float, mean: float, high: float) -> list[str]:
    return [f"{value:,.0f}" for value in (low, mean, high)]
