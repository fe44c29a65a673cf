"""DQN of Tianshou on CartPole with its own prioritized buffer and with a crystal memory.

    python benchmarks/adopt_tianshou.py --json benchmarks/results/adopt_tianshou.json

Score: mean return of the last 20 episodes of training, exploration included.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path += [str(ROOT), str(ROOT / "examples")]

import numpy as np  # noqa: E402
import tianshou_dqn  # noqa: E402
import torch  # noqa: E402

from benchmarks.learning import compare  # noqa: E402


def run(algorithm: str, buffer: str, seed: int) -> float:
    torch.set_num_threads(1)
    np.random.seed(seed)  # noqa: NPY002 - Tianshou's prioritized buffer draws from it
    returns = tianshou_dqn.train("prioritized" if buffer == "stock" else "crystal", seed, 6_000)
    return float(np.mean(returns[-20:]))


if __name__ == "__main__":
    compare(["DQN, CartPole-v1"], run, __doc__)
