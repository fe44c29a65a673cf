"""Do two checkouts compute the same, to the last bit?

    python tools/compare_trees.py OLD_CHECKOUT NEW_CHECKOUT [--quick] [--only numba,study] [--path FOLDER]

The same program (`tree_probe.py`) runs in each checkout, with every backend. It feeds memories of every kind, draws
from them, updates, consolidates, saves and loads them, and hashes their state, batches, reports and files. Both
checkouts continue from the files that OLD saved. Both run a tiny study; its stored tables are compared. The exit code
is 1 if anything differs. Hashes hold for one machine and are not kept.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from tree_probe import ENVIRONMENT

PROBE = Path(__file__).with_name("tree_probe.py")
PARTS = (*ENVIRONMENT, "files", "study")
Found = dict[str, dict[str, str]]
"""Case → what → hash."""

STUDY = """
[tables.nav.defaults]
suite = "nav-2"
steps = 480
capacity = 200
batch = 16
envs = 4
warmup = 40
episodes = 4
points = 2
seeds = "0:2"
agent_params.width = 16
[tables.nav.rows]
anchored = { memory = "crystal", preset = "anchored", params.every = 80 }
EWC = { memory = "prioritized", method = "ewc" }
"""
MORE_ROWS = """
paper = { memory = "crystal", preset = "paper", params.every = 80, params.every_episode = false }
distilled = { memory = "reservoir", method = "distill", steps = 240 }
rates = { memory = "crystal", params.alpha = [0.1, 0.4], params.every = 60, steps = 240 }
scratch = { scratch = true, steps = 240 }
rainbow = { agent = "rainbow", memory = "crystal", preset = "anchored", params.every = 80, steps = 240 }
[tables.pendulum.defaults]
suite = "pendulum-2"
steps = 160
capacity = 100
batch = 16
envs = 4
warmup = 40
episodes = 2
points = 1
agent_params.width = 16
[tables.pendulum.rows]
SAC = { agent = "sac", memory = "crystal", preset = "anchored", params.every = 40 }
TD3 = { agent = "td3", memory = "prioritized" }
"""


def run(checkout: Path, arguments: list[str], extra: Mapping[str, str], path: str) -> str:
    """What a Python program printed that imports the checkout's package; on one thread."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("CRYSTALRL_", "TRITON_"))}
    paths = os.pathsep.join([str(checkout / "src"), *([path] if path else [])])
    environment = {**clean, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0", **extra}
    done = subprocess.run([sys.executable, *arguments], env=environment, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        raise RuntimeError(f"{checkout}: {' '.join(arguments)} ended with {done.returncode}")
    return done.stdout


def probe(checkout: Path, what: str, backend: str, folder: Path, given: argparse.Namespace) -> Found:
    """The hashes of one checkout and backend."""
    folder.mkdir(parents=True, exist_ok=True)
    arguments = [str(PROBE), what, backend, str(folder), *(["--quick"] if given.quick else [])]
    found: Found = json.loads(run(checkout, arguments, ENVIRONMENT[backend], given.path))
    imported = found.pop("")["checkout"]
    if Path(imported) != checkout:
        raise RuntimeError(f"checkout: wanted the package of {checkout}, but that of {imported} was imported")
    return found


def backend_pair(backend: str, given: argparse.Namespace, work: Path) -> tuple[Found, Found]:
    old, new = (probe(tree, "run", backend, work / backend / name, given) for name, tree in trees(given).items())
    return old, new


def files_pair(given: argparse.Namespace, work: Path) -> tuple[Found, Found]:
    """Both go on from files that the old checkout saved."""
    saved = work / "numba" / "old"
    if not saved.exists():
        probe(given.old, "run", "numba", saved, given)
    found = []
    for name, tree in trees(given).items():
        copy = shutil.copytree(saved, work / "files" / name)
        found.append(probe(tree, "resume", "numba", copy, given))
    return found[0], found[1]


def study_pair(given: argparse.Namespace, work: Path) -> tuple[Found, Found]:
    """A study by the command line of each."""
    spec = work / "tiny.toml"
    spec.write_text(STUDY if given.quick else STUDY + MORE_ROWS)
    found = []
    for name, tree in trees(given).items():
        out = work / "study" / name
        run(tree, ["-m", "crystalrl", "study", str(spec), "--out", str(out), "--device", "cpu"], {}, given.path)
        found.append(tables_in(out))
    return found[0], found[1]


def tables_in(folder: Path) -> Found:
    """The stored tables, column by column, and the stored spec."""
    from pyarrow import parquet

    found: Found = {}
    for path in sorted(folder.rglob("spec.toml")):
        found[f"{path.parent.name}: spec"] = {"spec.toml": _digest(path.read_bytes())}
    for path in sorted(folder.rglob("part-*.parquet")):
        table = parquet.ParquetFile(path).read()
        case = found.setdefault(f"{path.parents[1].name}: {path.parent.stem}", {})
        for name in table.column_names:
            column = table.column(name).to_numpy()
            content = repr(column.tolist()).encode() if column.dtype.kind == "O" else column.tobytes()
            case[f"{path.stem} {name}"] = _digest(f"{column.dtype}".encode() + content)
    return found


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


def trees(given: argparse.Namespace) -> dict[str, Path]:
    return {"old": given.old, "new": given.new}


def pairs(given: argparse.Namespace, work: Path) -> Iterator[tuple[str, Found, Found]]:
    """Part by part what each checkout computed; empty if that is not possible here."""
    for part in given.only:
        try:
            yield part, *pair(part, given, work)
        except RuntimeError as error:
            yield part, {"all": {}}, {"all": {"error": str(error)}}


def pair(part: str, given: argparse.Namespace, work: Path) -> tuple[Found, Found]:
    """What each checkout computed."""
    if part == "files":
        return files_pair(given, work)
    if part == "study":
        return study_pair(given, work)
    missing = {"triton": "importlib.util.find_spec('triton') is None", "cuda": "not torch.cuda.is_available()"}
    if part in missing and "True" in python(given, f"import importlib.util, torch; print({missing[part]})"):
        return {}, {}
    return backend_pair(part, given, work)


def python(given: argparse.Namespace, code: str) -> str:
    return run(given.old, ["-c", code], {}, given.path)


def verdict(old: Mapping[str, str] | None, new: Mapping[str, str] | None) -> tuple[bool, str]:
    """Whether two cases are the same, and what to say about them."""
    if old is None or new is None:
        return False, f"[red]only in the {'new' if old is None else 'old'} checkout[/red]"
    for found in (old, new):
        if "error" in found:
            return False, f"[red]error[/red] {escape(found['error'][:300])}"
    differ = [what for what in dict.fromkeys([*old, *new]) if old.get(what) != new.get(what)]
    if not differ:
        return True, f"same ({len(old)} hashes)"
    return False, f"[red]DIFFERENT[/red] in {len(differ)} of {len(old)}: {'; '.join(differ[:4])}"


def compare(given: argparse.Namespace, console: Console) -> int:
    """Print a table of every case; how many are not the same."""
    wrong = count = 0
    table = Table("part", "case", "old and new")
    with tempfile.TemporaryDirectory() as work:
        for part, old, new in pairs(given, Path(work)):
            if not old and not new:
                table.add_row(part, "all", "[yellow]not available[/yellow]")
            for case in dict.fromkeys([*old, *new]):
                same, words = verdict(old.get(case), new.get(case))
                wrong, count = wrong + (not same), count + 1
                table.add_row(part, case, words)
            console.print(f"{part}: done, {wrong} of {count} cases differ so far", highlight=False)
    console.print(table)
    console.print(f"{'all' if not wrong else count - wrong} of {count} cases are the same", highlight=False)
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("--quick", action="store_true", help="fewer cases and steps: less than a minute")
    parser.add_argument("--only", default=",".join(PARTS), help=f"some of {','.join(PARTS)}")
    parser.add_argument("--path", default="", help="a folder to import from, in addition to the checkout")
    given: Any = parser.parse_args()
    given.old, given.new, given.only = given.old.resolve(), given.new.resolve(), given.only.split(",")
    unknown = set(given.only) - set(PARTS)
    if unknown:
        parser.error(f"--only: wanted some of {', '.join(PARTS)}, got {', '.join(sorted(unknown))}")
    return 1 if compare(given, Console()) else 0


if __name__ == "__main__":
    raise SystemExit(main())
