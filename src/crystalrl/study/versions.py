"""Versions of the packages and the device that computed results: `versions.json`."""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path

import numpy as np
import torch

from crystalrl._version import __version__
from crystalrl.study.table_files import write_whole

ENVIRONMENTS = ("gymnasium", "mujoco", "metaworld", "ale-py", "minatar")
"""Packages of environments whose versions are noted, if they are installed."""


def versions(device: str) -> dict[str, str]:
    """Versions and device that computed the results."""
    here = device.startswith("cuda") and torch.cuda.is_available()  # the GPUs of a Ray cluster may be on other machines
    name = torch.cuda.get_device_name() if here else platform.processor() or platform.machine()
    return {
        "crystalrl": __version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "device": f"{device} ({name})",
        **{package: metadata.version(package) for package in ENVIRONMENTS if _is_there(package)},
    }


def _is_there(package: str) -> bool:
    return any(True for _ in metadata.distributions(name=package))


def note_versions(path: Path, now: Mapping[str, str]) -> None:
    """Add these versions to the file: runs of one study may come from several machines."""
    before = json.loads(path.read_text()) if path.exists() else {}
    noted = {name: [seen for seen in before.get(name, "").split(" and ") if seen] for name in now}
    every = {name: " and ".join(dict.fromkeys([*noted[name], value])) for name, value in now.items()}
    if every != before:
        write_whole(path, (json.dumps(every, indent=1) + "\n").encode())
