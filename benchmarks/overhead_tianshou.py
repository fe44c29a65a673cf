"""Time of a gradient step of Tianshou with its own prioritized buffer and with a crystal memory.

python benchmarks/overhead_tianshou.py --json benchmarks/results/overhead_tianshou.json
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path += [str(ROOT)]

import numpy as np  # noqa: E402
from tianshou.data import PrioritizedVectorReplayBuffer  # noqa: E402

from benchmarks.overhead import milliseconds, report  # noqa: E402
from crystalrl import CrystalParams  # noqa: E402
from crystalrl.integrations.tianshou import CrystalReplayBuffer  # noqa: E402
from tests.integrations.tianshou_models import ENVS, algorithm, step  # noqa: E402

SLOTS, BATCH = 20_000, 256
SETTING = (
    f"{SLOTS:,} experiences, networks 16 × 16, batch {BATCH}, processor time in interleaved rounds; draw, update, "
)
SETTING += "report of the TD errors. Consolidation not included."


def stepper(name: str, kind: str) -> Callable[[], object]:
    made, rng = algorithm(name), np.random.default_rng(0)
    buffer: Any
    if kind == "Tianshou's prioritized":
        buffer = PrioritizedVectorReplayBuffer(SLOTS, ENVS, alpha=0.6, beta=0.4)
    else:
        changes: dict[str, Any] = {"kappa": 0.0, "settle": None} if "without" in kind else {}
        buffer = CrystalReplayBuffer(SLOTS, ENVS, CrystalParams.anchored(every=10**9, **changes))
        buffer.attach(made)
    for _ in range(SLOTS // ENVS):
        buffer.add(step(name, rng), buffer_ids=np.arange(ENVS))
    made.policy.is_within_training_step = True
    return lambda: made.update(buffer=buffer, sample_size=BATCH)


def measure() -> dict[str, dict[str, float]]:
    kinds = ("Tianshou's prioritized", "crystal memory without anchors", "crystal memory")
    return {name: milliseconds({kind: stepper(name, kind) for kind in kinds}) for name in ("DQN", "SAC")}


if __name__ == "__main__":
    report(__doc__, SETTING, "tianshou", measure)
