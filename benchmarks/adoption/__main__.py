"""Measure, or write what was measured into the pages of the libraries.

    python -m benchmarks.adoption learning torchrl          # goes on where it was; cleanrl, tianshou, torchrl
    python -m benchmarks.adoption overhead torchrl
    python -m benchmarks.adoption parts
    python -m benchmarks.adoption render

Scores are mean returns of the last 20 episodes of training on CartPole, 5 on Pendulum, exploration included.
"""

from __future__ import annotations

import argparse
import json
import sys
from importlib import import_module
from pathlib import Path
from time import process_time
from typing import Any, NamedTuple

import numpy as np
import torch

from benchmarks.learning import PLAIN, compare
from crystalrl import CrystalParams

ROOT = Path(__file__).parents[2]
sys.path += [str(ROOT / "examples")]

from benchmarks.adoption.overhead import measure  # noqa: E402
from benchmarks.adoption.parts import PARTS, scores  # noqa: E402
from benchmarks.adoption.render import LIBRARIES, RESULTS, render  # noqa: E402

BUFFERS = {"stock": None, "prioritized": "prioritized", "plain": PLAIN, "crystal": CrystalParams.anchored()}
"""The library's own, its prioritized one if that is another, ours with c ≡ 0, and ours."""
SEEDS = 32


class Task(NamedTuple):
    last: int
    """Episodes whose mean return is the score."""
    seeds: int
    buffers: tuple[str, ...]


TASKS = {"CartPole-v1": Task(20, 10, ("stock", "plain", "crystal")), "Pendulum-v1": Task(5, 5, ("stock", "crystal"))}


def learning(library: Any, path: Path, seeds: range) -> None:
    def run(algorithm: str, buffer: str, seed: int) -> float:
        returns = library.train(algorithm, BUFFERS[buffer], seed)
        return float(np.mean(returns[-TASKS[algorithm.split(", ")[1]].last :]))

    for algorithm in library.ALGORITHMS:
        task = TASKS[algorithm.split(", ")[1]]
        own = [buffer for buffer in library.STOCK.values() if buffer is not None]
        compare(path, [algorithm], [*task.buffers, *own], [seed for seed in seeds if seed < task.seeds], run)


def parts(path: Path) -> None:
    """All seeds of a part at once; what the file has is not run again."""
    found = json.loads(path.read_text()) if path.exists() else {}
    for name, params in PARTS.items():
        if name not in found:
            start = process_time()
            found[name] = {"scores": scores(params, list(range(SEEDS)))}
            found[name]["seconds"] = round(process_time() - start, 1)
            print(name, np.mean(found[name]["scores"]), flush=True)
            path.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["learning", "overhead", "parts", "render"])
    parser.add_argument("package", choices=LIBRARIES, nargs="?")
    parser.add_argument("--seeds", type=int, nargs=2, default=(0, 10), metavar=("FIRST", "END"))
    parser.add_argument("--json", type=Path, help="instead of the file in benchmarks/results")
    given = parser.parse_args()
    if given.what == "render":
        render()
        return
    torch.set_num_threads(1)
    if given.what == "parts":
        parts(RESULTS / "adopt_parts.json")
        return
    if given.package is None:
        parser.error("package: wanted cleanrl, tianshou or torchrl, got none")
    prefix = "adopt" if given.what == "learning" else "overhead"
    library = import_module(f"benchmarks.adoption.{given.package}")
    path = given.json or RESULTS / f"{prefix}_{given.package}.json"
    if given.what == "learning":
        learning(library, path, range(*given.seeds))
    else:
        measure(library, path)


if __name__ == "__main__":
    main()
