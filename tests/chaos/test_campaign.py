"""A few attempts of each attack, and the campaign itself. `make chaos` carries out the whole campaign."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import asdict, replace
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.chaos import crew
from tests.chaos.attacks import ATTACKS
from tests.chaos.campaign import RESULTS, ROOT, SEED, Attack, Outcome, Tally, Verdict, stored
from tests.chaos.interpreter import interpreter_error, no_interpreter
from tests.chaos.made_up import ATTACKS as MADE_UP
from tests.chaos.page import render

COUNTED, CRASH, HANG, UNPREPARED, LACKING = MADE_UP


def carry_out(attack: Attack, wanted: int, results: Path, jobs: int = 1, seed: int = SEED) -> Tally:
    """The figures of one attack; skips the test if it cannot be carried out here."""
    (order,) = crew.carry_out([(attack, wanted)], results, jobs, seed)
    if attack.lacks():
        pytest.skip(order.undone)
    assert order.undone == ""
    return order.tally


@pytest.mark.slow
@pytest.mark.parametrize("name", ATTACKS)
def test_nothing_breaks(name: str, tmp_path: Path) -> None:
    tally = carry_out(ATTACKS[name], ATTACKS[name].quick, tmp_path)
    assert tally.attempts >= ATTACKS[name].quick
    assert tally.broken == 0, "\n".join(tally.examples)


def test_a_few_attempts_of_each_attack_break_nothing() -> None:
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    environment = {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "tests.chaos.smoke"], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    verdicts = json.loads(done.stdout)
    assert set(verdicts) == {name for name, attack in ATTACKS.items() if attack.smoke and not attack.lacks()}
    assert {name: verdict["broken"] for name, verdict in verdicts.items() if verdict["broken"]} == {}
    assert all(verdict["held"] + verdict["refused"] > 0 for verdict in verdicts.values())


def figures(tally: Tally) -> dict[str, object]:
    """All but the time."""
    return {name: value for name, value in asdict(tally).items() if "seconds" not in name}


def test_an_interrupted_attack_goes_on_and_ends_with_the_same_figures(tmp_path: Path) -> None:
    whole = carry_out(COUNTED, 20, tmp_path / "whole")
    assert (whole.held, whole.refused, whole.broken, whole.units) == (17, 3, 0, 10)
    for wanted in (3, 11, 20):
        part = carry_out(COUNTED, wanted, tmp_path / "parts")
    assert figures(part) == figures(whole)
    assert carry_out(COUNTED, 20, tmp_path / "whole").seconds == whole.seconds  # nothing left to do


@pytest.mark.parametrize("jobs", [2, 5])
def test_the_figures_do_not_depend_on_the_number_of_processes(jobs: int, tmp_path: Path) -> None:
    alone = carry_out(COUNTED, 20, tmp_path / "alone")
    assert figures(carry_out(COUNTED, 20, tmp_path / "jobs", jobs)) == figures(alone)


def test_units_are_counted_in_order_and_kept_until_then(tmp_path: Path) -> None:
    tally = Tally("made-up-counted", SEED, "", wanted=4)
    tally.take(2, Outcome(Verdict(held=2, notes={"third": 1})))
    tally.take(1, Outcome(Verdict(held=2)))
    tally.store(tmp_path)
    again = stored(tmp_path, "made-up-counted")
    assert again == tally
    assert again is not None
    assert (again.units, again.attempts, set(again.ahead)) == (0, 0, {1, 2})
    again.take(0, Outcome(Verdict(held=1, broken=("it broke",))))
    assert (again.units, again.held, again.broken, again.notes, again.ahead) == (2, 3, 1, {}, {})


def test_what_cannot_be_carried_out_is_left_undone_and_the_others_are_done(tmp_path: Path) -> None:
    unprepared, lacking, counted = crew.carry_out([(UNPREPARED, 3), (LACKING, 3), (COUNTED, 4)], tmp_path, jobs=2)
    assert "could not be prepared: ended with 1" in unprepared.undone
    assert "nothing to attack" in unprepared.undone
    assert lacking.undone == "wanted the package no_such_package, got none"
    assert counted.tally.complete
    assert [path.stem for path in tmp_path.iterdir()] == [COUNTED.name]


def test_an_interpreter_of_triton_that_fails_is_lacking_and_not_an_error(tmp_path: Path) -> None:
    (tmp_path / "triton").mkdir()
    (tmp_path / "triton" / "language.py").touch()
    failing = "def jit(kernel):\n    raise TypeError('only 0-dimensional arrays')\n"
    (tmp_path / "triton" / "__init__.py").write_text(failing)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    wanted = "wanted Triton's interpreter, got TypeError: only 0-dimensional arrays"
    assert interpreter_error(environment) == wanted
    for kind in ("classic", "crystal"):
        assert ATTACKS[f"fuzz-{kind}-triton"].lacks is no_interpreter
    if find_spec("triton") is None:
        assert no_interpreter() == "wanted the package triton, got none"


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
