"""Optional packages."""

import subprocess
import sys

import pytest

from crystalrl.packages import installed, require


def test_packages_that_are_there_are_found_without_importing_them() -> None:
    found = "not installed('scipy') or 'scipy' in sys.modules"
    code = f"import sys; from crystalrl.packages import installed; sys.exit({found})"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
    assert not installed("no_such_package")
    assert not installed("no_such_package.inside")
    require("here", "numpy", extra="all")


def test_missing_packages_are_named_with_the_line_to_type() -> None:
    with pytest.raises(ModuleNotFoundError, match=r"^here: wanted the packages nope, never, got none: ") as refused:
        require("here", "numpy", "nope", "never", extra="some")
    assert str(refused.value).endswith("pip install 'crystalrl[some]'")
    assert refused.value.name == "nope"


def test_the_theory_without_scipy_says_what_to_install() -> None:
    code = """
import sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "scipy":
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Blocked())
import crystalrl.theory
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    wanted = "crystalrl.theory: wanted the package scipy, got none: pip install 'crystalrl[theory]'"
    assert done.stderr.splitlines()[-1] == f"ModuleNotFoundError: {wanted}"
