"""The first minutes of a new user: what is typed and how long it takes, from the wheel, in a clean environment."""

from __future__ import annotations

import difflib
import os
import shlex
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.harness.pages import measured_on, table
from benchmarks.harness.results import Result, Setting, machine
from tools.environments import Environment, build

FIRST = (
    "pip install 'crystalrl[fast,study]'",
    "crystalrl run nav-3 --memory crystal --seeds 0:2 --steps 3000 --capacity 600 --out runs/first",
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


def follow(home: Environment, lines: Sequence[str], wheel: Path) -> float:
    """Type the lines; seconds until the last one is done. RuntimeError if one fails."""
    started = time.monotonic()
    for line in lines:
        command, *words = shlex.split(line.replace("crystalrl[", f"{wheel}["))
        if command == "pip":
            home.install(*words[1:])
            continue
        done = home.run(command, *words)
        if done.returncode:
            raise RuntimeError(f"{line}: {done.stderr}")
    return time.monotonic() - started


def measure(setting: Setting) -> Iterator[Result]:
    """Follow the three paths in a new environment, one after another."""
    with tempfile.TemporaryDirectory() as folder:
        wheel, _ = build(Path(folder, "dist"))
        home = Environment.create(Path(folder))
        result: Result = {"machine": machine(), "load": round(os.getloadavg()[0], 1), "paths": {}}
        result["paths"]["first plot"] = {"lines": len(FIRST), "seconds": follow(home, FIRST, wheel)}
        if "<svg" not in (home.home / "runs/first.svg").read_text():
            raise RuntimeError("runs/first.svg: wanted a picture, got none")
        yield result
        (home.home / "mine.toml").write_text(STUDY)
        result["paths"]["own study"] = {"lines": STUDY.count("\n") + len(OWN), "seconds": follow(home, OWN, wheel)}
        if not (home.home / "runs/mine/report.html").is_file():
            raise RuntimeError("runs/mine/report.html: wanted a report, got none")
        yield result
        (home.home / "agent.py").write_text(AFTER)
        seconds = follow(home, ADOPT, wheel)
        result["paths"]["Stable-Baselines3"] = {"lines": changed_lines(BEFORE, AFTER), "seconds": seconds}
        yield result


WORDS = {
    "first plot": "from the wheel to a first plot: install, train, draw",
    "own study": "a study of two tasks of one's own, from the TOML file to the report",
    "Stable-Baselines3": "a crystal memory in a program with Stable-Baselines3: install, change, run",
}


def block(result: Result) -> str:
    """What was typed, how long it took, and the goals."""
    rows = []
    for name, found in result["paths"].items():
        most, longest = LIMITS[name]
        goal = " and ".join(
            [f"≤ {most} lines"] * (most is not None) + [f"≤ {longest:.0f} s" if longest else ""] * (longest is not None)
        )
        rows.append([WORDS[name], f"{found['lines']}", f"{found['seconds']:.0f} s", goal])
    load = f"Load of the machine when it began: {result['load']} on {result['machine']['cores']} cores."
    return "\n\n".join(
        [
            table(["path", "lines typed or changed", "time", "goal"], rows),
            f"The time of an installation includes downloads, mostly PyTorch. {load}",
            measured_on(result["machine"]),
        ]
    )
