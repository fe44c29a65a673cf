"""`atari-20` and `atari-5`: Atari games in sequence (Bellemare et al. 2013), as Machado et al. (2018) recommend.

A score is (return − random) / (human − random). The agent sees rewards clipped to ±1, as in Mnih et al. (2015).
"""

from __future__ import annotations

import torch

from crystalrl.suites.benchmark import Benchmark
from crystalrl.suites.makers import SIDE, SKIP, STACK
from crystalrl.suites.sizes import Sizes
from crystalrl.suites.tasks import Sequence, Task

SCORES = {
    "Alien": (227.8, 7127.7),
    "Amidar": (5.8, 1719.5),
    "Assault": (222.4, 742.0),
    "Asterix": (210.0, 8503.3),
    "BankHeist": (14.2, 753.1),
    "BattleZone": (2360.0, 37187.5),
    "Boxing": (0.1, 12.1),
    "Breakout": (1.7, 30.5),
    "CrazyClimber": (10780.5, 35829.4),
    "DemonAttack": (152.1, 1971.0),
    "Freeway": (0.0, 29.6),
    "Gopher": (257.6, 2412.5),
    "Jamesbond": (29.0, 302.8),
    "Kangaroo": (52.0, 3035.0),
    "Krull": (1598.0, 2665.5),
    "KungFuMaster": (258.5, 22736.3),
    "MsPacman": (307.3, 6951.6),
    "Pong": (-20.7, 14.6),
    "Qbert": (163.9, 13455.0),
    "RoadRunner": (11.5, 7845.0),
}
"""Returns of a random policy and of a professional human tester, as in the table of DQN Zoo. The paper does not name
its twenty games; these are a choice."""
FIVE = ("Krull", "Freeway", "RoadRunner", "Jamesbond", "KungFuMaster")
"""Games that Rainbow is expected to learn with few steps; this is not measured yet."""
FULL, SHORT = 108_000, 18_000
"""Frames of the longest episode: thirty minutes, and for `atari-5` five."""
SIZES = Sizes((STACK, SIDE, SIDE), 18, torch.uint8, STACK)
NOTE = "Atari games with sticky actions. The score is 0 for a random policy and 1 for a human."
ABOUT = {
    "atari-20": "twenty Atari games, human-normalised; four grey frames of 84 × 84, stored once",
    "atari-5": f"{', '.join(FIVE)}, episodes of five minutes",
}


def benchmark(name: str) -> Benchmark | None:
    """The sequence of this name; None if there is none."""
    if name not in ABOUT:
        return None
    games, frames = (tuple(SCORES), FULL) if name == "atari-20" else (FIVE, SHORT)
    tasks = Sequence(tuple(_task(game, frames) for game in games))
    return Benchmark(tasks, SIZES, NOTE, "atari", ("gymnasium", "ale_py", "cv2"), frames // SKIP)


def _task(game: str, frames: int) -> Task:
    low, high = SCORES[game]
    return Task(game, f"atari:{game}", {"frames": frames}, low=low, high=high, clip=1.0)
