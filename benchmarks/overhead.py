"""Processor time of alternatives in interleaved rounds, so that a busy machine does not matter."""

from __future__ import annotations

import argparse
import json
import platform
import statistics
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path
from time import process_time
from typing import Any

import torch


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


def report(doc: str | None, setting: str, library: str, measure: Callable[[], dict[str, dict[str, float]]]) -> None:
    """Measure, print, and store in the file named by --json."""
    parser = argparse.ArgumentParser(description=doc)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    machine = {"python": platform.python_version(), "torch": torch.__version__, library: version(library), "threads": 1}
    result: dict[str, Any] = {"setting": setting, "algorithms": measure(), "machine": machine}
    text = json.dumps(result, indent=1)
    print(text)
    if options.json:
        options.json.write_text(text + "\n")
