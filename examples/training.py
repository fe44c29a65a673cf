"""The command line that the examples for TorchRL and Tianshou share."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

from crystalrl import CrystalParams

Train = Callable[[CrystalParams | None, int, int, Path | None], list[float]]
"""Arguments: the memory's parameters (None: the library's own buffer), seed, steps, and where to save the buffer.
Result: the returns of the episodes."""


def main(doc: str | None, train: Train, steps: int) -> None:
    """Parse the command line, train, print the mean return."""
    parser = argparse.ArgumentParser(description=doc)
    parser.add_argument("--steps", type=int, default=steps)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--memory", choices=["crystal", "stock"], default="crystal")
    parser.add_argument("--out", type=Path, help="where the buffer is saved")
    options = parser.parse_args()
    params = CrystalParams() if options.memory == "crystal" else None
    returns = train(params, options.seed, options.steps, options.out)
    last = returns[-20:]
    mean = sum(last) / len(last) if last else float("nan")
    print(f"{options.memory}: {len(returns)} episodes, mean return of the last {len(last)}: {mean:.1f}")
