"""The reliability campaign, whole (`make chaos`), and a few attempts of each attack with the ordinary tests."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from tests.chaos.attacks import ATTACKS
from tests.chaos.campaign import RESULTS, ROOT, SEED, carry_out, stored
from tests.chaos.made_up import ATTACKS as MADE_UP
from tests.chaos.page import render

COUNTED, CRASH, HANG = MADE_UP
QUICK = os.environ.get("CRYSTALRL_CHAOS") == "quick"


@pytest.mark.slow
@pytest.mark.parametrize("name", ATTACKS)
def test_nothing_breaks(name: str, tmp_path: Path) -> None:
    attack = ATTACKS[name]
    tally = carry_out(attack, attack.quick, tmp_path) if QUICK else carry_out(attack, attack.full)
    assert tally.broken == 0, "\n".join(tally.examples)


def test_a_few_attempts_of_each_attack_break_nothing() -> None:
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    environment = {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "tests.chaos.smoke"], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    verdicts = json.loads(done.stdout)
    assert set(verdicts) == {name for name, attack in ATTACKS.items() if attack.smoke}
    assert {name: verdict["broken"] for name, verdict in verdicts.items() if verdict["broken"]} == {}
    assert all(verdict["held"] + verdict["refused"] > 0 for verdict in verdicts.values())


def test_an_interrupted_attack_goes_on_and_ends_with_the_same_figures(tmp_path: Path) -> None:
    whole = carry_out(COUNTED, 20, tmp_path / "whole")
    assert (whole.held, whole.refused, whole.broken, whole.units) == (17, 3, 0, 10)
    for wanted in (3, 11, 20):
        part = carry_out(COUNTED, wanted, tmp_path / "parts")
        assert part.attempts == wanted
    assert (part.held + part.refused, part.broken) == (20, 0)
    assert carry_out(COUNTED, 20, tmp_path / "whole").units == 10  # nothing left to do


def test_the_same_seed_draws_the_same_and_another_seed_starts_over(tmp_path: Path) -> None:
    one, other = (carry_out(COUNTED, 8, tmp_path / name) for name in ("one", "other"))
    assert one.notes == other.notes
    again = carry_out(COUNTED, 8, tmp_path / "one", seed=SEED + 1)
    assert again.seed == SEED + 1
    assert again.notes["drawn"] != one.notes["drawn"]
    assert again.notes["units"] == 4


def test_figures_of_other_sources_are_not_continued(tmp_path: Path) -> None:
    tally = carry_out(COUNTED, 8, tmp_path)
    replace(tally, sources="others", broken=5).store(tmp_path)
    assert asdict(carry_out(COUNTED, 8, tmp_path)).items() >= {"broken": 0, "units": 4}.items()


def test_a_crash_and_a_hang_count_as_broken_and_the_attack_goes_on(tmp_path: Path) -> None:
    crashed, hung = carry_out(CRASH, 4, tmp_path), carry_out(HANG, 3, tmp_path)
    assert (crashed.held, crashed.broken, crashed.units) == (3, 1, 4)
    assert "ended with -11" in crashed.examples[0]
    assert (hung.held, hung.broken) == (2, 1)
    assert "no answer in 2 s" in hung.examples[0]
    assert stored(tmp_path, CRASH.name) == crashed


def test_the_page_shows_the_stored_figures() -> None:
    page = (ROOT / "docs" / "reliability.md").read_text()
    assert render(page, RESULTS) == page
