"""Save, kill, load: with every library the next batches are those that would have been drawn."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integrations.killed import PROGRAMS, ROOT


@pytest.mark.parametrize("library", list(PROGRAMS))
@pytest.mark.filterwarnings("ignore:`", "ignore:The")  # Minari wants links, mails and requirements
def test_after_a_kill_the_next_batches_follow_from_the_saved_file(
    library: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "datasets"))
    command = [sys.executable, "-W", "ignore", "-m", "tests.integrations.killed", library, str(tmp_path)]
    drawn = ""
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        for line in child.stdout:
            drawn = line if line.startswith("[[") else drawn
            if line.startswith("learnt"):  # it has continued after saving
                child.send_signal(signal.SIGKILL)
                break
    assert child.returncode == -signal.SIGKILL
    again = PROGRAMS[library](tmp_path, True)
    assert [again.draw() for _ in range(3)] == json.loads(drawn)
