"""A made-up study with many rows, seeds and tasks."""

from pathlib import Path

import numpy as np

from crystalrl.study.definition import Table
from crystalrl.study.spec import RunSpec
from crystalrl.study.store import Store

POINTS = 10


def write_large(folder: Path, rows: int, seeds: int, tasks: int) -> Path:
    """Random scores of every row, seed and task; every row is stored as its own run."""
    specs = {f"row {k}": RunSpec(f"nav-{tasks}", seeds=tuple(range(seeds)), capacity=100 + k) for k in range(rows)}
    store, random = Store(folder, Table("Large", specs).to_toml()), np.random.default_rng(0)
    for name in specs:
        seed, after, task = (a.ravel() for a in np.indices((seeds, tasks + 1, tasks)))
        lane = {"cell": np.full(seed.size, name), "method": np.full(seed.size, name), "seed": seed}
        scores = {**lane, "after": after, "task": task, "score": random.random(seed.size)}
        seed, task, point = (a.ravel() for a in np.indices((seeds, tasks, POINTS)))
        lane = {"cell": np.full(seed.size, name), "method": np.full(seed.size, name), "seed": seed}
        curves = {**lane, "task": task, "step": 1200 * (point + 1), "score": random.random(seed.size)}
        first = np.arange(seeds)
        lane = {"cell": np.full(seeds, name), "method": np.full(seeds, name), "seed": first}
        memory = {**lane, "step": 0 * first, "task": 0 * first, "nbytes": 1e6 + 0 * first}
        store.write(name.replace(" ", "-"), {"scores": scores, "curves": curves, "memory": memory}, "cpu")
    return folder
