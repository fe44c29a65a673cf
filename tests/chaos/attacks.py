"""All attacks by name."""

from __future__ import annotations

from tests.chaos import damaged_files, fuzz, killed_saves, killed_studies
from tests.chaos.campaign import Attack

ATTACKS: dict[str, Attack] = {attack.name: attack for module in (killed_studies, killed_saves, damaged_files, fuzz) for attack in module.ATTACKS}
