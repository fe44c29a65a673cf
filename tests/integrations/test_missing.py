"""Without its package an integration says what to install."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    ("extra", "package"),
    [("sb3", "stable_baselines3"), ("torchrl", "torchrl"), ("tianshou", "tianshou"), ("minari", "minari")],
)
def test_a_missing_package_is_named_with_the_command_that_installs_it(extra: str, package: str) -> None:
    script = f"import sys; sys.modules[{package!r}] = None; import crystalrl.integrations.{extra}"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    wanted = (
        f"ImportError: crystalrl.integrations.{extra}: wanted {package}, got none: pip install 'crystalrl[{extra}]'"
    )
    assert done.stderr.strip().splitlines()[-1] == wanted
