"""What the integrations share."""

from __future__ import annotations

import subprocess
import sys

PACKAGES = {"sb3": "stable_baselines3", "torchrl": "torchrl", "tianshou": "tianshou", "minari": "minari"}
SCRIPT = """
import importlib, sys
for extra, package in {0}.items():
    sys.modules[package] = None
    try:
        importlib.import_module(f"crystalrl.integrations.{{extra}}")
    except ImportError as error:
        print(error)
"""


def test_a_missing_package_is_named_with_the_command_that_installs_it() -> None:
    script = SCRIPT.format(PACKAGES)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [
        f"crystalrl.integrations.{extra}: wanted the package {package}, got none: pip install 'crystalrl[{extra}]'"
        for extra, package in PACKAGES.items()
    ]
