"""Write the generated parts of docs/integrations/sb3.md, and its figure, from the stored results.

    python benchmarks/render_sb3.py

Results come from `benchmarks/sb3.py`, `benchmarks/sb3_equivalence.py` and `examples/sb3_continual.py`.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path += [str(ROOT), str(ROOT / "examples")]

from continual_figure import draw, interval, table  # noqa: E402
from scipy import stats  # noqa: E402

from benchmarks.learning import difference  # noqa: E402
from benchmarks.render import table as markdown  # noqa: E402

RESULTS = ROOT / "benchmarks" / "results"
PAGE = ROOT / "docs" / "integrations" / "sb3.md"
FIGURE = ROOT / "docs" / "figures" / "sb3-continual.png"
NAMES = {"stock": "SB3's own", "prioritized": "`PrioritizedReplayBuffer`", "crystal": "`CrystalReplayBuffer`"}


def number(values: Any) -> str:
    mean, low, high = interval(values)
    return f"{mean:.0f} [{low:.0f}, {high:.0f}]"


def continual(runs: list[dict[str, Any]]) -> str:
    scores = table(runs)
    seeds = min(len(each) for each in scores.values())
    columns = {
        "learned (each task, right after it)": lambda s: s[:, [0, 1, 2], [0, 1, 2]].mean(1),
        "A after C": lambda s: s[:, 2, 0],
        "B after C": lambda s: s[:, 2, 1],
        "C after C": lambda s: s[:, 2, 2],
        "all three after C": lambda s: s[:, 2].mean(1),
        "all three at the end": lambda s: s[:, 3].mean(1),
    }
    rows = [[NAMES[name], *(number(column(s)) for column in columns.values())] for name, s in scores.items()]
    ours, others = scores["crystal"][:, 2].mean(1), {n: s[:, 2].mean(1) for n, s in scores.items() if n != "crystal"}
    tests = "; ".join(
        f"against {NAMES[name]} {ours.mean() - theirs.mean():+.0f}, "
        f"p = {stats.ttest_ind(ours, theirs, equal_var=False).pvalue:.1g}"
        for name, theirs in others.items()
    )
    minutes = sum(one["seconds"] for one in runs) / 60
    return "\n\n".join(
        [
            f"{seeds} seeds, mean return (at most 200) and 95 % interval by bootstrap over the seeds:",
            markdown(["buffer", *columns], rows),
            f"All three after C, {NAMES['crystal']} {tests} (Welch). All runs together took {minutes:.0f} minutes of "
            "one core. `python examples/sb3_continual.py --out benchmarks/results/sb3_continual.json`",
            "![Return on each task after each stage](../figures/sb3-continual.png)",
        ]
    )


def overhead(result: dict[str, Any]) -> str:
    rows = [
        [
            name,
            f"{each['milliseconds']['stock']:.2f} ms",
            *(f"{each['ratio'][buffer] - 1:+.1%}" for buffer in ("prioritized", "crystal")),
        ]
        for name, each in result["algorithms"].items()
    ]
    machine = ", ".join(f"{name} {value}" for name, value in result["machine"].items())
    late = result["consolidation"]
    return "\n\n".join(
        [
            markdown(["gradient step", "SB3's own", "`PrioritizedReplayBuffer`", "`CrystalReplayBuffer`"], rows),
            f"{result['slots']:,} experiences, networks 256 × 256, batch 256, processor time in interleaved rounds. A "
            f"consolidation comes on top: {late['seconds']:.1f} s at {late['slots']:,} experiences, once in "
            f"{late['every']:,} environment steps; its cost grows with the square of the memory, above 16,384 (with "
            "faiss) about linearly. "
            f"Measured on: {machine}. `python benchmarks/sb3.py --json benchmarks/results/sb3.json`",
        ]
    )


def equivalence(name: str, runs: list[dict[str, Any]]) -> str:
    rows = []
    for algorithm in dict.fromkeys(r["algorithm"] for r in runs):
        d = difference(runs, algorithm)
        rows.append(
            [
                algorithm,
                f"{d['stock']:.0f} ± {d['stock_half_interval']:.0f}",
                f"{d['ours']:.0f}",
                f"{d['difference']:+.1f} [{d['low']:.1f}, {d['high']:.1f}]",
            ]
        )
    seeds = len({r["seed"] for r in runs})
    head = [
        f"{name}, {seeds} seeds",
        "SB3's own, 95 % interval",
        "ours with c ≡ 0",
        "difference, 95 % interval (Welch)",
    ]
    return markdown(head, rows)


def main() -> None:
    page = PAGE.read_text()
    parts = {
        "continual": ("sb3_continual.json", continual),
        "overhead": ("sb3.json", overhead),
        "pendulum": ("sb3_pendulum.json", lambda runs: equivalence("Pendulum-v1", runs)),
        "halfcheetah": ("sb3_halfcheetah.json", lambda runs: equivalence("HalfCheetah-v5", runs)),
    }
    for name, (file, render) in parts.items():
        stored = RESULTS / file
        text = render(json.loads(stored.read_text())) if stored.exists() else "Not yet measured."
        block = re.compile(f"(<!-- {name}, generated -->\n).*?(\n<!-- end -->)", re.DOTALL)
        page = block.sub(lambda match, text=text: f"{match[1]}\n{text}\n{match[2]}", page)
    PAGE.write_text(page)
    draw(json.loads((RESULTS / "sb3_continual.json").read_text()), FIGURE)


if __name__ == "__main__":
    main()
