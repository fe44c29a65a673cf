"""Results: what a benchmark measures, step by step, and the JSON files that keep it."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results"
Result = dict[str, Any]


@dataclass(frozen=True)
class Setting:
    """How a benchmark is run."""

    quick: bool = False
    """A smaller problem and fewer rounds: tells whether it works, not how fast."""
    device: str = "cpu"
    only: tuple[str, ...] = ()
    """Parts to measure; empty: all."""
    stored: Any = None
    """Result of an earlier, perhaps interrupted, run; None: there is none."""


@dataclass(frozen=True)
class Benchmark:
    """One entry of the registry."""

    about: str
    file: str
    """Name of the stored result, without `.json`."""
    measure: Callable[[Setting], Iterator[Any]]
    """Yields the result so far, each time that something was added."""
    blocks: Mapping[str, Callable[[Any], str]] = field(default_factory=dict)
    """Generated blocks of the documentation, by the name in their marker: Markdown made from the result."""
    figures: Mapping[str, Callable[[Any, Path], None]] = field(default_factory=dict)
    """Figures by their path below `docs/`: drawn from the result into a file."""
    device: str = "cpu"


Part = Callable[[], Result]


def in_parts(setting: Setting, parts: Mapping[str, Part]) -> Iterator[Result]:
    """Measure one part after another; each adds its entries to the result. What was stored of other parts stays."""
    if unknown := set(setting.only) - set(parts):
        raise ValueError(f"only: wanted some of {', '.join(parts)}, got {', '.join(sorted(unknown))}")
    result = dict(setting.stored or {})
    for name in setting.only or parts:
        result |= parts[name]()
        yield result


def load(name: str) -> Any:
    """A stored result; None where there is none."""
    path = RESULTS / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else None


def write(path: Path, result: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n")


def machine(*packages: str) -> Result:
    """Versions and hardware of a CPU benchmark."""
    return {
        "python": platform.python_version(),
        "torch": torch.__version__,
        **{package: version(package) for package in packages},
        "threads": torch.get_num_threads(),
        "cores": os.cpu_count(),
        "system": platform.platform(terse=True),
    }
