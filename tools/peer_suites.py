"""Run Stable-Baselines3's own tests with our replay buffers in every off-policy model.

    git clone https://github.com/DLR-RM/stable-baselines3 CHECKOUT
    python -m tools.peer_suites CHECKOUT [--buffer prioritized] [--only test_run.py test_sde.py] [-k EXPRESSION]

The tests come from the checkout, the library is the installed one. Tests that build no off-policy model with SB3's own
buffer are not counted. *Refused* are those that end in a refusal that docs/integrations/sb3.md documents. With
`--buffer own` nothing is replaced: tests that fail then do not fail because of our buffers. The exit code is 1 if a
test fails.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.markup import escape

ROOT = Path(__file__).resolve().parents[1]
BUFFERS = {"crystal": "CrystalReplayBuffer", "prioritized": "PrioritizedReplayBuffer", "own": ""}
ALGORITHMS = ("SAC", "TD3", "DQN", "DDPG", "OffPolicyAlgorithm")
Result = dict[str, str]


def concerned(checkout: Path) -> list[Path]:
    """The checkout's test files that mention an off-policy algorithm."""
    files = sorted((checkout / "tests").glob("test_*.py"))
    if not files:
        raise SystemExit(f"checkout: wanted a folder with tests/test_*.py, got {checkout}")
    return [path for path in files if any(name in path.read_text() for name in ALGORITHMS)]


def run(checkout: Path, files: Sequence[Path], buffer: str, options: Sequence[str] = ()) -> list[Result]:
    """The outcome of each test."""
    with tempfile.TemporaryDirectory() as folder:
        results = Path(folder) / "results.jsonl"
        results.touch()
        names = [str(path.relative_to(checkout)) for path in files]
        plugin = [
            "-p",
            "tools.sb3_injected",
            "-p",
            "no:cacheprovider",
            "--import-mode=importlib",
            "--continue-on-collection-errors",
        ]
        command = [sys.executable, "-m", "pytest", "-q", "--tb=no", *plugin, *options, *names]
        path = os.pathsep.join((str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", "")))
        given = {"PYTHONPATH": path, "INJECTED_BUFFER": BUFFERS[buffer], "INJECTED_RESULTS": str(results)}
        subprocess.run(command, cwd=checkout, env={**os.environ, **given}, check=False)
        return [json.loads(line) for line in results.read_text().splitlines()]


def show(results: Sequence[Result], console: Console) -> None:
    """Names of the failed tests and the counts."""
    counts = Counter(result["outcome"] for result in results)
    for result in results:
        if result["outcome"] == "failed":
            console.print(escape(f"failed  {result['test']}\n        {result['error'].splitlines()[0]}"))
    summary = ", ".join(f"{counts[name]} {name}" for name in ("passed", "refused", "failed"))
    console.print(f"{len(results)} tests of off-policy models: {summary}")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="tools.peer_suites", description=__doc__.splitlines()[0])
    parser.add_argument("checkout", type=lambda text: Path(text).resolve())
    parser.add_argument("--buffer", choices=BUFFERS, default="crystal")
    parser.add_argument("--only", nargs="+", default=None, metavar="FILE", help="test files; default: all concerned")
    parser.add_argument("-k", default=None, metavar="EXPRESSION", help="only tests that match, as in pytest")
    given = parser.parse_args(arguments)
    files = concerned(given.checkout)
    if given.only:
        files = [path for path in files if path.name in given.only]
    results = run(given.checkout, files, given.buffer, ["-k", given.k] if given.k else [])
    show(results, Console(soft_wrap=True))
    return int(any(result["outcome"] == "failed" for result in results))


if __name__ == "__main__":
    raise SystemExit(main())
