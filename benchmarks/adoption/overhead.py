"""Processor time of gradient steps, in interleaved rounds, so that a busy machine does not matter."""

from __future__ import annotations

import json
import platform
import statistics
from collections.abc import Callable, Mapping
from pathlib import Path
from time import process_time
from typing import Any

import torch

from crystalrl import CrystalParams

SLOTS, BATCH = 20_000, 256
NEVER = 10**9
KINDS = {
    "crystal memory without anchors": CrystalParams.anchored(every=NEVER, kappa=0.0, settle=None),
    "crystal memory": CrystalParams.anchored(every=NEVER),
}


def milliseconds(steps: Mapping[str, Callable[[], object]], rounds: int = 11, each: int = 8) -> dict[str, float]:
    """Median time of one call of each alternative."""
    times: dict[str, list[float]] = {name: [] for name in steps}
    for step in steps.values():
        for _ in range(each):
            step()
    for _ in range(rounds):
        for name, step in steps.items():
            start = process_time()
            for _ in range(each):
                step()
            times[name].append(1e3 * (process_time() - start) / each)
    return {name: statistics.median(values) for name, values in times.items()}


def measure(library: Any, path: Path) -> None:
    """Steps of a library with its own buffers and with ours, all full; into a file."""
    kinds = library.STOCK | {name: KINDS[name] for name in library.OURS}
    times = {
        algorithm: milliseconds({kind: library.stepper(algorithm, params) for kind, params in kinds.items()})
        for algorithm in library.STEPS
    }
    result = {
        "setting": f"{SLOTS:,} experiences, networks {library.WIDTHS}, batch {BATCH}, processor time in interleaved "
        "rounds; drawing, loss, backward pass, optimiser, telling the TD errors. Consolidation not included.",
        "algorithms": times,
        "machine": {"python": platform.python_version(), "torch": torch.__version__, **library.PACKAGES, "threads": 1},
    }
    text = json.dumps(result, indent=1)
    print(text)
    path.write_text(text + "\n")
