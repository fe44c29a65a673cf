"""`mujoco-6`: six of Gymnasium's MuJoCo robots, padded to the largest.

A score is (return − low) / (high − low), so the return is low + score · (high − low).
"""

from __future__ import annotations

from crystalrl.suites.benchmark import Benchmark
from crystalrl.suites.sizes import Sizes
from crystalrl.suites.tasks import Sequence, Task

REFERENCES = {
    "HalfCheetah-v5": (-280.0, 12_000.0),
    "Walker2d-v5": (2.0, 5_000.0),
    "Hopper-v5": (18.0, 3_500.0),
    "Ant-v5": (-55.0, 5_800.0),
    "Humanoid-v5": (115.0, 5_500.0),
    "HumanoidStandup-v5": (33_000.0, 160_000.0),
}
"""Return of a random policy, measured; and of a good one, rounded: SAC within 10⁶ steps in Tianshou's benchmark, on
version v3 of the environments. That benchmark has no HumanoidStandup, whose number has only the right order of
magnitude."""
SIZES = Sizes((348,), (17,))
NOTE = "Simulated robots run or stand up. The score is the return, 0 for a random policy and 1 for a good one."
ABOUT = {"mujoco-6": "six MuJoCo robots, padded to the largest; box actions"}


def benchmark(name: str) -> Benchmark | None:
    """The sequence of this name; None if there is none."""
    if name != "mujoco-6":
        return None
    tasks = tuple(Task(make.partition("-")[0], make, low=low, high=high) for make, (low, high) in REFERENCES.items())
    return Benchmark(Sequence(tasks), SIZES, NOTE, "mujoco", ("gymnasium", "mujoco"), 1000)
