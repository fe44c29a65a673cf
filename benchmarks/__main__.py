"""Run a benchmark, or write stored results into the documentation.

    python -m benchmarks list
    python -m benchmarks run memory --json benchmarks/results/memory.json
    python -m benchmarks run consolidation --quick
    python -m benchmarks render

With --json the numbers go into a file each time that something was measured. Where the file exists, parts that are not
measured stay, and comparisons of learning continue.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import torch

from benchmarks.harness.pages import render
from benchmarks.harness.results import RESULTS, Setting, write
from benchmarks.registry import BENCHMARKS


def run(options: argparse.Namespace) -> None:
    benchmark, path = BENCHMARKS[options.name], options.json
    stored = json.loads(path.read_text()) if path and path.exists() else None
    setting = Setting(options.quick, options.device or benchmark.device, tuple(options.only), stored)
    if setting.device == "cpu":
        torch.set_num_threads(1)
    result: Any = stored
    for result in benchmark.measure(setting):
        if path:
            write(path, result)
    if options.only or not benchmark.blocks:
        print(json.dumps(result, indent=1, ensure_ascii=False))
    else:
        print(*(block(result) for block in benchmark.blocks.values()), sep="\n\n")


def show() -> None:
    for name, benchmark in BENCHMARKS.items():
        stored = "stored" if (RESULTS / f"{benchmark.file}.json").exists() else ""
        print(f"{name:18} {stored:7} {benchmark.about}")


def parsed(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("list", help="all benchmarks, and which have stored results")
    one = commands.add_parser("run", help="measure")
    one.add_argument("name", choices=list(BENCHMARKS), metavar="NAME")
    one.add_argument("--json", type=Path, metavar="FILE", help="write the numbers to this file")
    one.add_argument("--quick", action="store_true", help="small and fast: shows whether it works")
    one.add_argument("--device", help="cpu or cuda, where the benchmark can use either")
    one.add_argument("--only", nargs="+", default=[], metavar="PART", help="measure only these parts")
    some = commands.add_parser("render", help="write stored results into the pages of docs/")
    some.add_argument("names", nargs="*", metavar="NAME", help="all, if none is named")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> None:
    options = parsed(arguments)
    if options.command == "run":
        run(options)
    elif options.command == "list":
        show()
    else:
        render(BENCHMARKS, names=options.names)


if __name__ == "__main__":
    main()
