"""The single-file agents with a uniform memory ("stock": the plain loop) and with a crystal memory.

    python benchmarks/adopt_cleanrl.py --json benchmarks/results/adopt_cleanrl.json

Score: mean return of the last episodes of training (CartPole 20, Pendulum 5), exploration included.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path += [str(ROOT), str(ROOT / "examples")]

import cleanrl_dqn  # noqa: E402
import cleanrl_sac  # noqa: E402
import numpy as np  # noqa: E402
import torch  # noqa: E402

from benchmarks.learning import compare  # noqa: E402

AGENTS = {"DQN, CartPole-v1": (cleanrl_dqn, 20), "SAC, Pendulum-v1": (cleanrl_sac, 5)}


def run(algorithm: str, buffer: str, seed: int) -> float:
    torch.set_num_threads(1)
    agent, last = AGENTS[algorithm]
    returns = agent.train(agent.Args(memory="uniform" if buffer == "stock" else "crystal", seed=seed))
    return float(np.mean(returns[-last:]))


if __name__ == "__main__":
    compare(AGENTS, run, __doc__)
