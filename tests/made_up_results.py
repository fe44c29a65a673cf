"""Made-up results: columns of every table, and a folder with scores."""

from pathlib import Path
from typing import Any

import numpy as np

from crystalrl.study.definition import Table
from crystalrl.study.spec import RunSpec
from crystalrl.study.store import TABLES, Store

ROWS = {
    "anchored": RunSpec("nav-2", memory="crystal", preset="anchored", seeds=(0, 1, 2)),
    "EWC": RunSpec("nav-2", method="ewc", seeds=(0, 1, 2), method_params={"strength": [1.0, 10.0]}),
}
TABLE = Table("Made <up>", ROWS, tuning_seeds=(1000, 1001), reference="anchored")
MEANS = {"anchored": (0.9, 0.9), "EWC strength=1.0": (0.8, 0.3), "EWC strength=10.0": (0.4, 0.6)}
"""Final score of every cell on the reported and on the tuning seeds."""


def write_results(folder: Path) -> Path:
    """Two rows; the second is tuned, and its better value on the tuning seeds reports worse."""
    columns: dict[str, dict[str, list[object]]] = {
        "scores": {c: [] for c in ("cell", "method", "seed", "after", "task", "score")},
        "curves": {c: [] for c in ("cell", "method", "seed", "task", "step", "score")},
        "memory": {c: [] for c in ("cell", "method", "seed", "step", "task", "nbytes", "liquid", "glass", "crystal")},
    }

    def add(table: str, *values: object) -> None:
        for column, value in zip(columns[table].values(), values, strict=True):
            column.append(value)

    for cell, means in MEANS.items():
        method = cell.partition(" ")[0]
        for seed in (0, 1, 2, *((1000, 1001) if method == "EWC" else ())):
            mean = means[seed >= 1000] + 0.01 * (seed % 1000)
            add("memory", cell, method, seed, 0, 0, 2e6, *[np.nan] * 3)
            for step in (100, 200) if method == "anchored" else ():
                add("memory", cell, method, seed, step, step // 200, 2e6, 5.0 + seed, 2.0, step / 100)
            for after in range(3):
                for task in range(2):
                    add("scores", cell, method, seed, after, task, mean if after == 2 else float(after > task))
            for task in range(2):
                add("curves", cell, method, seed, task, 100, 0.5)
    Store(folder, TABLE.to_toml()).write("made", columns, "cpu")
    return folder


def write_redefined(folder: Path) -> Path:
    """Random scores of two rows on four tasks, of which two are then redefined; the second row has two orders."""
    rows = {"VR": RunSpec("nav-4-redefined", seeds=(0, 1)), "PER": RunSpec("nav-4-redefined", seeds=(0, 1), orders=2)}
    cells, random = np.array(["VR", "PER order=0", "PER order=1"]), np.random.default_rng(0)
    cell, seed, after, task = (at.ravel() for at in np.indices((3, 2, 7, 6)))
    lane = {"cell": cells[cell], "method": np.where(cell > 0, "PER", "VR"), "seed": seed}
    scores = {**lane, "after": after, "task": task, "score": random.random(cell.size)}
    curves = {**lane, "task": task, "step": np.full(cell.size, 12_000), "score": scores["score"]}
    memory = {**lane, "task": task, "step": 0 * seed, "nbytes": 1e6 + 0 * seed}
    store = Store(folder, Table("", rows).to_toml())
    store.write("made", {"scores": scores, "curves": curves, "memory": memory}, "cpu")
    return folder


def columns(score: float, seed: int, cell: str = "κ = 1") -> dict[str, dict[str, list[Any]]]:
    """Two rows of each table."""
    one = {"s": cell, "i": 3, "f": score}
    made = {table: {name: [one[kind]] * 2 for name, kind in kinds.items()} for table, kinds in TABLES.items()}
    for table in made.values():
        table["seed"] = [seed] * 2
    made["memory"]["crystal"] = [score, np.nan]
    return made


def assert_same(ours: dict[str, Any], theirs: dict[str, Any]) -> None:
    assert list(ours) == list(theirs)
    for name in ours:
        np.testing.assert_array_equal(ours[name], theirs[name], strict=True)
