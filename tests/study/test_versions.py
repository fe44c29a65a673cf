"""Which versions and machines computed the results."""

import json
from pathlib import Path

import gymnasium

from crystalrl._version import __version__
from crystalrl.study.versions import note_versions, versions


def test_all_machines_that_took_part_are_recorded(tmp_path: Path) -> None:
    path = tmp_path / "versions.json"
    for device in ("cuda (A)", "cpu (B)", "cuda (A)"):
        note_versions(path, {"torch": "2.0", "device": device})
    assert json.loads(path.read_text()) == {"torch": "2.0", "device": "cuda (A) and cpu (B)"}


def test_packages_of_environments_are_named_if_they_are_installed() -> None:
    found = versions("cpu")
    assert (found["crystalrl"], found["gymnasium"]) == (__version__, gymnasium.__version__)
    assert found["device"].startswith("cpu (")
