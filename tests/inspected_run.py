"""A tiny real run whose memory can be inspected."""

from pathlib import Path

from crystalrl.study.definition import Table
from crystalrl.study.execution import execute
from crystalrl.study.plan import plan
from crystalrl.study.spec import RunSpec
from crystalrl.study.store import Store

SMALL = {"suite": "nav-2", "steps": 480, "capacity": 96, "batch": 16, "episodes": 2, "points": 2, "warmup": 40}
FAST = {"every": 40, "time_unit": 20, "settle": "off"}
ROWS = {
    "crystal": RunSpec(memory="crystal", seeds=(0, 1), params=FAST, **SMALL),  # type: ignore[arg-type]
    "PER": RunSpec(memory="prioritized", seeds=(0, 1), **SMALL),  # type: ignore[arg-type]
}
TABLE = Table("Tiny", ROWS)


def write_run(folder: Path) -> Path:
    """Train both rows."""
    for _ in execute(plan(TABLE.runs()), Store(folder, TABLE.to_toml())):
        pass
    return folder
