"""All attacks by name."""

from __future__ import annotations

from tests.chaos import (
    damaged_files,
    full_disk,
    fuzz,
    hostile_environments,
    killed_saves,
    killed_studies,
    processes,
    ray_workers,
    readers,
    threads,
)
from tests.chaos.campaign import Attack

MODULES = (
    killed_studies, killed_saves, ray_workers, damaged_files, readers, full_disk, fuzz, hostile_environments, threads,
    processes,
)  # fmt: skip
ATTACKS: dict[str, Attack] = {attack.name: attack for module in MODULES for attack in module.ATTACKS}
