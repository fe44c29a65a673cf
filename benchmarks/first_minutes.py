"""The first minutes of a new user: what is typed and how long it takes, from the wheel, in a clean environment."""

from __future__ import annotations

import difflib
import os
import re
import resource
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.harness.pages import measured_on, table
from benchmarks.harness.results import Result, Setting, machine
from tools.environments import Environment, build

FIRST = (
    "pip install 'crystalrl[study]'",
    "crystalrl run nav-3 --memory crystal --seeds 0:2 --steps 5000 --capacity 800 --out runs/first",
    "crystalrl report runs/first --figure runs/first.svg",
)
STUDY = """title = "Two tasks of my own"
reference = "crystal"

[defaults]
seeds = "0:2"
steps = 3000
capacity = 1000

[[tasks]]
name = "cart"
make = "CartPole-v1"
high = 500

[[tasks]]
name = "heavy cart"
make = "CartPole-v1"
physics = { length = 1.0, force_mag = 5.0 }
high = 500

[rows.crystal]
memory = "crystal"
preset = "anchored"

[rows.reservoir]
memory = "reservoir"
"""
OWN = ("crystalrl study mine.toml",)
BEFORE = """from stable_baselines3 import DQN

model = DQN("MlpPolicy", "CartPole-v1", buffer_size=1_000, learning_starts=200)
model.learn(2_000)
print(model.replay_buffer.size())
"""
AFTER = """from crystalrl.integrations.sb3 import Consolidate, CrystalReplayBuffer
from stable_baselines3 import DQN

buffer = CrystalReplayBuffer
model = DQN("MlpPolicy", "CartPole-v1", replay_buffer_class=buffer, buffer_size=1_000, learning_starts=200)
model.learn(2_000, callback=Consolidate())
print(model.replay_buffer.size())
"""
ADOPT = ("pip install 'crystalrl[fast,sb3]'", "python agent.py")
LIMITS = {"first plot": (10, 180.0), "Stable-Baselines3": (5, None), "own study": (None, 300.0)}
"""Path → most lines, and most seconds."""


def changed_lines(before: str, after: str) -> int:
    """Lines of the new program that the old one has not."""
    found = difflib.ndiff(before.splitlines(), after.splitlines())
    return sum(line.startswith("+ ") for line in found)


def follow(home: Environment, lines: Sequence[str], wheel: Path) -> Result:
    """Type the lines: seconds until the last one is done, and of processor time. RuntimeError if one fails."""
    started, used = time.monotonic(), _processor()
    for line in lines:
        command, *words = shlex.split(line.replace("crystalrl[", f"{wheel}["))
        if command == "pip":
            home.install(*words[1:])
            continue
        done = home.run(command, *words)
        if done.returncode:
            raise RuntimeError(f"{line}: {done.stderr}")
    return {"seconds": round(time.monotonic() - started, 1), "processor": round(_processor() - used, 1)}


def _processor() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def measure(setting: Setting) -> Iterator[Result]:
    """Follow the three paths in a new environment, one after another. Runs that are stored stay."""
    result: Result = {"machine": machine(), "runs": list((setting.stored or {}).get("runs", []))}
    with tempfile.TemporaryDirectory() as folder:
        told = {"steps": steps(), "load": round(os.getloadavg()[0], 1), "packages": packages()}
        result["runs"].append({**told, "paths": followed(Path(folder))})
    yield result


def steps() -> int:
    """Steps per task of the first plot; earlier runs had fewer."""
    return int(FIRST[1].split("--steps ")[1].split()[0])


def packages() -> str:
    """Where pip takes packages from, by its settings."""
    told = subprocess.run([sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=True)
    return "local" if re.search(r"find-links='[^']|file:", told.stdout) else "downloaded"


def followed(folder: Path) -> Result:
    """Path → lines and times, in a new environment in the folder."""
    wheel, _ = build(folder / "dist")
    home = Environment.create(folder)
    first = {"lines": len(FIRST), **follow(home, FIRST, wheel)}
    _expect(folder / "runs/first.svg")
    (folder / "mine.toml").write_text(STUDY)
    study = {"lines": STUDY.count("\n") + len(OWN), **follow(home, OWN, wheel)}
    _expect(folder / "runs/mine/report.html")
    (folder / "agent.py").write_text(AFTER)
    adopted = {"lines": changed_lines(BEFORE, AFTER), **follow(home, ADOPT, wheel)}
    return {"first plot": first, "own study": study, "Stable-Baselines3": adopted}


def _expect(file: Path) -> None:
    if not file.is_file() or not file.stat().st_size:
        raise RuntimeError(f"{file}: wanted a file, got none")


WORDS = {
    "first plot": "from the wheel to a first plot: install, train, draw",
    "own study": "a study of two tasks of one's own, from the TOML file to the report",
    "Stable-Baselines3": "a crystal memory in a program with Stable-Baselines3: install, change, run",
}


def block(result: Result) -> str:
    """What was typed, how long it took in every run, and the goals."""
    last = result["runs"][-1]["paths"]
    rows = [["lines", *(f"{last[name]['lines']}" for name in LIMITS)], ["goal", *map(_goal, LIMITS)]]
    for number, run in enumerate(result["runs"], 1):
        rows.append([_head(number, run), *(_times(run, name) for name in LIMITS)])
    cores = result["machine"]["cores"]
    note = (
        "Time until the last line is done, and in brackets processor time. With local packages pip had copies, and "
        "downloads, mostly of PyTorch, come on top; where nothing is said, it was not recorded. PyTorch is the build "
        f"named below. The machine, with {cores} cores, had other work: its load is given. All stored runs are shown; "
        "their steps are those per task of the first plot."
    )
    return "\n\n".join([table(["", *(WORDS[name] for name in LIMITS)], rows), note, measured_on(result["machine"])])


def _head(number: int, run: Result) -> str:
    found = f", packages {run['packages']}" if "packages" in run else ""
    return f"run {number}, {run['steps']:,} steps, load {run['load']}{found}"


def _times(run: Result, name: str) -> str:
    found = run["paths"][name]
    return f"{found['seconds']:.0f} s ({found['processor']:.0f} s)"


def _goal(name: str) -> str:
    lines, seconds = LIMITS[name]
    return ", ".join([f"≤ {lines} lines"] * bool(lines) + [f"≤ {seconds or 0:.0f} s"] * bool(seconds))
