"""Write docs/interference.md from the stored results.

    python benchmarks/render_interference.py

Results come from `python benchmarks/interference.py --json benchmarks/results/interference.json` and
`python benchmarks/contexts.py --json benchmarks/results/contexts.json`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

sys.path += [str(Path(__file__).parent.parent)]

from benchmarks.contexts import SEEN
from benchmarks.render import RESULTS, table

PAGE = Path(__file__).parent.parent / "docs" / "interference.md"
READING = {"literal": ", literal", "elders": ", outliers by their elders", "library": ""}
LAYOUT = {
    "layers": "layers: the same places, told apart by a third coordinate",
    "tiles": "tiles beside each other",
    "plane": "tiles, without a third coordinate",
}


def several(*shares: float) -> str:
    return " / ".join(f"{share:.3f}" for share in shares)


def noise(rows: list[dict[str, Any]]) -> str:
    body = [
        [
            f"`{row['rule']}`{READING[row['reading']]}",
            str(row["neighbours"]),
            several(*(row[f"flagged, p = {p}"] for p in ("0.01", "0.05", "0.2"))),
            *(
                several(row[f"recall, p = {p}"], row[f"recall, p = {p}, two thirds newer"])
                for p in ("0", "0.05", "0.2")
            ),
        ]
        for row in rows
    ]
    head = ["rule", "experiences per place", "flagged, p = .01 / .05 / .2", "recall, p = 0", "p = .05", "p = .2"]
    return "\n\n".join(
        [
            "## Noise",
            "Places with many experiences each, rewards 0 or 1, δ_r = .5; with probability p a reward is the other. "
            "*Flagged*: share of the experiences that could be flagged and are, though nothing has changed. *Recall*: "
            "share of the true contradictions flagged after all rewards turned over, when half / two thirds of a "
            "place's experiences are newer.",
            table(head, body),
        ]
    )


def automatic(rows: list[dict[str, Any]]) -> str:
    kept = [row for row in rows if row["reading"] == "library"]
    ways, sizes = list(dict.fromkeys(row["ε"] for row in kept)), sorted({row["experiences"] for row in kept})
    found = {(row["rule"], row["ε"], row["experiences"]): row for row in kept}
    rules = ("fresh_mean", "newer_majority")
    body = [[way, *(several(*(found[rule, way, size]["recall"] for rule in rules)) for size in sizes)] for way in ways]
    worst = max(row["false flags"] for row in kept)
    return "\n\n".join(
        [
            "## The automatic ε",
            "A walk to a goal in a square; the goal moves half-way. Recall of `fresh_mean` / `newer_majority` with ε "
            "the median distance to the nearest state, or within which the median liquid experience has so many liquid "
            f"ones of its action (the default is `k`, ten). At most {worst:.1%} are flagged wrongly.",
            table(["ε", *(f"{size:,} experiences" for size in sizes)], body),
        ]
    )


def redefined(name: str, runs: list[dict[str, int]]) -> list[str]:
    total = {column: sum(run[column] for run in runs) for column in runs[0]}
    lost = [run["of those melted"] / run["crystals of the other context"] for run in runs]
    melted = [run["of them melted"] / run["contradicted crystals"] for run in runs]
    return [
        name,
        f"{total['of them melted']:,} of {total['contradicted crystals']:,}",
        f"{min(melted):.1%}",
        f"{total['of those melted']:,} of {total['crystals of the other context']:,} "
        f"({total['of those melted'] / total['crystals of the other context']:.2%})",
        f"{max(lost):.1%}",
        f"{sum(share > 0.03 for share in lost)} of {len(lost)}",
    ]


def redefinition(variants: dict[str, dict[str, list[dict[str, int]]]]) -> str:
    default = variants["default"]
    body = [redefined(LAYOUT[layout], runs) for layout, runs in default.items()]
    unseen = [run for runs in default.values() for run in runs[SEEN:]]
    body.append(redefined("of these the seeds on which no form of the rules was ever tried", unseen))
    body += [
        redefined(f"all layouts, {variant}", [run for runs in layouts.values() for run in runs])
        for variant, layouts in variants.items()
        if variant != "default"
    ]
    head = ["layout", "contradicted crystals melted", "least", "others lost", "most", "runs above 3 %"]
    return "\n\n".join(
        [
            "## One of two contexts is redefined",
            "Context 0 is learnt, then context 1, then context 0 with other rewards; 20 consolidations later. No ids, "
            "all scales automatic. *Contradicted*: crystals of context 0 whose reward is another one now. *Others*: "
            "crystals of context 1, of which none is contradicted. *Warm*: the backup goes on from the last W instead "
            "of starting anew.",
            table(head, body),
        ]
    )


def fifty(kept: dict[str, dict[str, Any]]) -> str:
    body = [
        [name, f"{row['crystals']:,} of {row['room']:,}", str(row["contexts"]), f"{row['effective']:.1f}"]
        for name, row in kept.items()
    ]
    return "\n\n".join(
        [
            "## Fifty contexts, one after another",
            "No ids. The effective number is 1/Σp² over the shares p of the contexts among the crystals.",
            table(["", "crystals", "contexts among them", "effective number"], body),
        ]
    )


def main() -> None:
    rules, contexts = (json.loads((RESULTS / f"{n}.json").read_text()) for n in ("interference", "contexts"))
    parts = [
        "# What the rules of interference find",
        "Generated by `python benchmarks/render_interference.py` from `benchmarks/results/`; the reasons are in "
        "[decisions/interference.md](decisions/interference.md).",
        noise(rules["noise"]),
        automatic(rules["automatic"]),
        redefinition(contexts["redefinition"]),
        fifty(contexts["fifty contexts"]),
    ]
    PAGE.write_text("\n\n".join(parts) + "\n")


if __name__ == "__main__":
    main()
