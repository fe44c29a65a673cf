"""Runs that are stored as they end, so that an interrupted comparison goes on where it was."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from time import process_time
from typing import Any

SEEDS = 5
Run = Callable[[str, str, int], float]
"""Score of (algorithm, buffer, seed); the buffer is "stock" or "crystal"."""


def compare(algorithms: Iterable[str], run: Run, doc: str | None) -> None:
    """Every algorithm with both buffers on every seed, into the file named by --json."""
    parser = argparse.ArgumentParser(description=doc)
    parser.add_argument("--json", type=Path, required=True)
    parser.add_argument("--seeds", type=int, nargs=2, default=(0, SEEDS), metavar=("FIRST", "END"))
    options = parser.parse_args()
    runs: list[dict[str, Any]] = json.loads(options.json.read_text()) if options.json.exists() else []
    done = {(r["algorithm"], r["buffer"], r["seed"]) for r in runs}
    for key in ((a, b, s) for s in range(*options.seeds) for a in algorithms for b in ("stock", "crystal")):
        if key in done:
            continue
        start = process_time()
        score = run(*key)
        runs.append(dict(zip(("algorithm", "buffer", "seed"), key, strict=True)))
        runs[-1] |= {"score": score, "seconds": round(process_time() - start, 1)}
        print(runs[-1], flush=True)
        options.json.write_text("[\n" + ",\n".join(map(json.dumps, runs)) + "\n]\n")
