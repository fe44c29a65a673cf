from crystalrl.memory.prioritized import annealed  # noqa: F401
