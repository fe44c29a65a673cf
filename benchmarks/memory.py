"""`python benchmarks/memory.py …` is `python -m benchmarks run memory …`, from any folder."""

from __future__ import annotations

import os
import sys
from pathlib import Path

if __name__ == "__main__":
    path = os.pathsep.join(filter(None, [str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH")]))
    command = [sys.executable, "-m", "benchmarks", "run", "memory", *sys.argv[1:]]
    os.execve(sys.executable, command, {**os.environ, "PYTHONPATH": path})
