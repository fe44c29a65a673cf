"""Write docs/benchmarks.md from the stored results.

    python benchmarks/render.py

Results come from `python benchmarks/memory.py --json benchmarks/results/memory.json`, `benchmarks/consolidation.py` and
`benchmarks/agreement.py`, each with its own file, and on a CUDA device from
`python benchmarks/cuda.py --json benchmarks/results/cuda.json` and
`python benchmarks/learners.py --json benchmarks/results/learners.json`; `one_lane.json` is the latter's
`--lanes --device cpu`, and `halfcheetah.json` comes from `benchmarks/halfcheetah.py`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

sys.path += [str(Path(__file__).parent.parent)]

from benchmarks.render_learners import halfcheetah, learners, one_lane, stock_sac, table

RESULTS = Path(__file__).parent / "results"
PAGE = Path(__file__).parent.parent / "docs" / "benchmarks.md"
TARGETS = {
    "prioritized_sample_vs_cpprb": ("prioritized: sample + update, against cpprb", 1.5),
    "prioritized_sample_vs_cpprb_without_numba": ("the same without numba", 0.7),
    "prioritized_add_vs_cpprb": ("prioritized: add, against cpprb", 1.5),
    "crystal_sample_vs_cpprb": ("crystal: sample + update, against cpprb's prioritized", 1.5),
    "crystal_add_vs_cpprb": ("crystal: add, against cpprb's prioritized", 1.0),
    "uniform_sample_vs_sb3": ("uniform: sample, against Stable-Baselines3", 2.0),
}


PARTS = ("payload", "ledger", "lists", "vectors")


def _sums(name: str, parts: dict[str, float]) -> list[str]:
    listed = parts["ledger"] + parts["lists"]
    return [f"{listed:.0f}", f"{listed + parts['vectors']:.0f}"] if name.startswith("crystal") else ["", ""]


def memory(result: dict[str, Any]) -> str:
    ratios, growth = result["ratios"], result["growth"]["prioritized_sample"]
    rows = [
        [words, f"{ratios[f'{name}_100000']:.2f}", f"{ratios[name]:.2f}", f"≥ {goal:g}"]
        for name, (words, goal) in TARGETS.items()
    ]
    rows.append(["growth of prioritized sample + update, 10⁵ → 10⁶", "", f"{growth:.2f}", "≤ 2.5"])
    sizes = [
        [name, *(f"{parts[part]:.0f}" for part in PARTS), *_sums(name, parts)]
        for name, parts in result["bytes_per_experience"].items()
    ]
    machine = ", ".join(f"{name} {value}" for name, value in result["machine"].items())
    return "\n\n".join(
        [
            "## Memories on CPU",
            "Our rate divided by the peer's, in interleaved rounds of one process: one thread, observation 39, "
            "action 4, batch 256, float32. Bigger is better.",
            table(["", "10⁵ slots", "10⁶ slots", "goal"], rows),
            "Bytes per experience at 10⁵ slots. The ledger of a crystal memory includes its visit counts, not anchors. "
            "Lists and copies of vectors are kept above 16,384 slots. Goals: ≤ 160 and ≤ 256.",
            table(["memory", *PARTS, "ledger + lists", "and vectors"], sizes),
            f"Measured on: {machine}. `python benchmarks/memory.py --json benchmarks/results/memory.json`",
        ]
    )


def cuda(result: dict[str, Any]) -> str:
    rows = [
        [f"{kind}: sample + update of 256, 50 lanes × 10⁵ slots, captured graph", f"{result[key] * 1e3:.3f} ms"]
        for kind, key in (
            ("prioritized", "prioritized_sample_update_seconds"),
            ("reservoir", "reservoir_sample_update_seconds"),
            ("crystal, with anchors", "crystal_sample_update_seconds"),
        )
    ]
    agree = (
        f"Of the draws, {result['same_draws']:.1%} are the same as on CPU for the same uniforms. After a stream with "
        f"consolidations, phases agree for {result['crystal_same_phase']:.1%} of the experiences and c differs by at "
        f"most {result['crystal_largest_difference_of_c']:.1e}."
    )
    where = f"{result['device']}, torch {result['torch']}. `python benchmarks/cuda.py`"
    return "\n\n".join(["## Memories on CUDA", table(["", "time"], rows), agree, f"Measured on: {where}"])


def consolidation(result: dict[str, Any]) -> str:
    sizes = {int(name.split()[1]): row for name, row in result.items() if name.startswith("speed ")}
    sizes = dict(sorted(sizes.items()))
    lines = (
        ("experiences stored", "experiences", ",.0f", ""),
        ("seconds of the process, mean", "seconds", ".2f", ""),
        ("seconds of the process, longest", "worst", ".2f", ""),
        ("FAISS: build + one query for each, seconds of the process", "peer_seconds", ".1f", ""),
        ("ours ÷ FAISS, process time", "ratio", ".3f", "≤ .05 at 10⁶"),
        ("ours ÷ FAISS, wall-clock time", "wall_ratio", ".3f", ""),
        ("ours ÷ FAISS with vectors padded as ours are, process time", "padded_ratio", ".3f", ""),
        ("bytes per slot beside the payload", "bytes", ".0f", "≤ 256"),
        ("recall@10 of the lists of s′", "recall", ".3f", "≥ .95"),
        ("error of V ÷ its deviation", "value_error", ".3f", ""),
    )
    rows = [[words, *(format(row[key], how) for row in sizes.values()), goal] for words, key, how, goal in lines]
    if "growth" in result:
        rows.append(["growth 10⁵ → 10⁶", "", f"{result['growth']:.1f}", *[""] * (len(sizes) - 2), "≤ 12"])
    heads = [f"{size:,} slots" for size in sizes]
    turns = max(row["turns"] for row in sizes.values())
    stages = list(next(iter(sizes.values()))["stages"])
    profile = [[name, *(f"{row['stages'][name]:.2f}" for row in sizes.values())] for name in stages]
    parts = [
        "## Consolidation on CPU",
        f"Mean over up to {turns} consolidations with 5,000 new experiences before each, the critic not counted; AR(1) "
        "walks (.98) of 50 environments, 39 dimensions; one thread. FAISS: inverted lists of vectors in half "
        "precision, as many as we have, eight probes; a sample of its queries is timed after each consolidation.",
        table(["", *heads, "goal"], rows),
        "Where the time goes, in wall-clock seconds of a machine that did other work as well:",
        table(["stage", *heads], profile),
    ]
    streams = {name: row for name, row in result.items() if isinstance(row, dict) and "recall" in row}
    lived = {name: row for name, row in streams.items() if not name.startswith("speed ")}
    if lived:
        quality = [
            [name, f"{row['turns']}", f"{row['recall']:.3f}", f"{row['value_error']:.3f}", f"{row['seconds']:.2f}"]
            for name, row in lived.items()
        ]
        parts += [
            "A memory of 10⁵ slots from empty, 5,000 new experiences at a time; 10⁵ come while it fills, then so many "
            "consolidations more; Meta-World: 40,000 slots, 2,000 at a time. Goal for recall: ≥ .95 after 50, on "
            "trajectories.",
            table(["stream", "consolidations", "recall@10", "error of V ÷ its deviation", "seconds each"], quality),
        ]
    if "adds" in result:
        small, large = result["adds"]["resident_mib"].items()
        parts.append(
            f"Resident memory of a process, memory of {result['adds']['slots']:,} slots: {small[1]:.0f} MiB after "
            f"{int(small[0]):,} adds, {large[1]:.0f} MiB after {int(large[0]):,}."
        )
    return "\n\n".join([*parts, "`python benchmarks/consolidation.py --json benchmarks/results/consolidation.json`"])


def agreement(result: dict[str, Any]) -> str:
    keys = ("all", "held_by_both", "liquid", "glass", "crystal", "flagged")
    rows = [
        [name, *(f"{row[key]:.3f}" if key in keys[:2] else f"{row[key]:,.0f}" for key in keys)]
        for name, row in result["rows"].items()
    ]
    return "\n\n".join(
        [
            "## Kept lists against all pairs",
            f"Phases after {result['turns']} consolidations of {result['slots']:,} slots, compared with those of the "
            f"exact path on the same stream; means over {result['seeds']} seeds. Goal: ≥ .98 of all that ever came.",
            table(["", "agree: all that ever came", "agree: held by both", *keys[2:5], "contradicted in all"], rows),
            "Seed by seed: "
            + "; ".join(
                f"{name}: " + ", ".join(f"{x:.3f}" for x in row["by_seed"])
                for name, row in result["rows"].items()
                if name != "exact"
            )
            + ".",
            "`python benchmarks/agreement.py --json benchmarks/results/agreement.json`",
        ]
    )


def main() -> None:
    parts = ["# Benchmarks", "Generated by `python benchmarks/render.py` from `benchmarks/results/`."]
    pages: dict[str, Any] = {"memory": memory, "consolidation": consolidation, "agreement": agreement}
    pages |= {"cuda": cuda, "learners": learners, "one_lane": one_lane}
    for name, render in pages.items():
        stored = RESULTS / f"{name}.json"
        if stored.exists():
            parts.append(render(json.loads(stored.read_text())))
    own = RESULTS / "halfcheetah.json"
    if own.exists():
        others = json.loads((RESULTS / "halfcheetah_published.json").read_text())
        beside = RESULTS / "sb3_halfcheetah.json"
        if beside.exists():
            others.insert(0, stock_sac(json.loads(beside.read_text())))
        parts.append(halfcheetah(json.loads(own.read_text()), others))
    PAGE.write_text("\n\n".join(parts) + "\n")


if __name__ == "__main__":
    main()
