"""Random operations on memories of every kind, compared with the naive reference after each of them.

A unit is the life of one memory. The operations are the rules of the state machines in tests/memory, with plans that
are applied later in between. Lives differ in memory, preset, lanes, environments, n-step returns and backend.
"""

from __future__ import annotations

import random
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest
import torch

from crystalrl import CrystalParams
from crystalrl.study.registry import MEMORIES
from tests.chaos.campaign import Attack, Verdict
from tests.chaos.draws import begin, operate
from tests.chaos.plans import Planning
from tests.memory import test_machines as classic
from tests.memory.crystal import test_machines as crystal

LIFE = 200
"""Operations per life."""
CASES = crystal.CASES | {
    f"preset {name}": getattr(CrystalParams, name)(**crystal.FAST) for name in MEMORIES["crystal"].presets
}
"""Parameters of crystal memories: those of the machines' own tests, and all presets as they are."""
WITH_OWN_RATES = ("paper", "anchored", "default")
"""Cases of which lanes may have rates of their own."""
LANES = (None, None, 1, 3)
"""Lanes of a memory; None, the usual case, twice as often."""


@cache
def machine(base: type, **fields: Any) -> type:
    """A machine whose memory has these fields."""
    return type("Life", (base,), fields)


def classic_life(rng: random.Random) -> Any:
    kind = rng.choice(list(classic.TWINS))
    return machine(
        classic.Machine, kind=kind, lanes=rng.choice(LANES), n_step=rng.choice((1, 3)), envs=rng.choice((1, 2))
    )()


def crystal_life(rng: random.Random) -> Any:
    lanes, case = rng.choice(LANES), rng.choice(list(CASES))
    fields = {"lanes": lanes, "envs": rng.choice((1, 2)), "n_step": rng.choice((1, 1, 3))}
    own_rates = lanes == 3 and case in WITH_OWN_RATES and rng.random() < 0.5
    return machine(Planning, params=CASES[case], per_lane=own_rates, **fields)()


def life(make: Any, prepared: Path, number: int, size: int, rng: random.Random) -> Verdict:
    """One life; it ends at the first difference."""
    made, done, operations = make(rng), ["build"], 0
    try:
        begin(made, rng)
        while operations < size:
            name, count = operate(made, rng)
            done.append(name)
            operations += count
    except (Exception, pytest.fail.Exception) as error:
        where = " ".join(getattr(error, "__notes__", ["in build"]))
        what = f"life {number}, after {', '.join(done[-5:])}, {where}: {error!r}"
        return Verdict(held=operations, broken=(what[:800],))
    finally:
        made.teardown()
    return Verdict(held=operations, notes={"lives": 1})


def quiet(folder: Path) -> Path:
    torch.set_num_threads(1)
    return folder


def float64(folder: Path) -> Path:
    torch.set_default_dtype(torch.float64)
    return quiet(folder)


class Blocker:
    """Makes numba look as if it were not installed."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if name.partition(".")[0] == "numba":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def without_numba(folder: Path) -> Path:
    import sys

    assert "numba" not in sys.modules
    sys.meta_path.insert(0, Blocker())  # type: ignore[arg-type]
    return quiet(folder)


def fuzz(name: str, title: str, make: Any, full: int, backend: str = "auto", prepare: Any = quiet) -> Attack:
    return Attack(
        f"fuzz-{name}", title, "operations", full, 30, partial(life, make), prepare, LIFE,
        environment={"CRYSTALRL_BACKEND": backend},
    )  # fmt: skip


ATTACKS = (
    fuzz("classic-numba", "Random operations: uniform, prioritized, reservoir (numba)", classic_life, 400_000),
    fuzz("classic-numpy", "Random operations: uniform, prioritized, reservoir (NumPy)", classic_life, 200_000, "numpy"),
    fuzz("crystal-numba", "Random operations: crystal memory, all presets (numba)", crystal_life, 250_000),
    fuzz("crystal-numpy", "Random operations: crystal memory, all presets (NumPy)", crystal_life, 130_000, "numpy"),
    fuzz("no-numba", "numba is not installed", crystal_life, 10_000, prepare=without_numba),
    fuzz("float64", "torch's default dtype is float64", crystal_life, 10_000, prepare=float64),
)
