"""Random operations on memories of every kind, compared with the naive reference after each of them.

A unit is the life of one memory. The operations are the rules of the state machines in tests/memory, with plans that
are applied later in between. Lives differ in memory, preset, lanes, environments, n-step returns and backend.
"""

from __future__ import annotations

import os
import random
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest
import torch

from crystalrl import CrystalParams
from crystalrl.study.registry import MEMORIES
from tests.chaos.campaign import Attack, Verdict, packages
from tests.chaos.draws import begin, operate
from tests.chaos.interpreter import no_interpreter
from tests.chaos.off_host import OffHostClassic, OffHostCrystal
from tests.chaos.plans import Planning
from tests.memory import test_machines as classic
from tests.memory.crystal import test_machines as crystal

LIFE = 200
"""Operations per life."""
SHORT_LIFE = 20
"""The same where an operation takes long."""
CASES = crystal.CASES | {
    f"preset {name}": getattr(CrystalParams, name)(**crystal.FAST) for name in MEMORIES["crystal"].presets
}
"""Parameters of crystal memories: those of the machines' own tests, and all presets as they are."""
WITH_OWN_RATES = ("paper", "anchored", "default")
"""Cases whose lanes may have different rates."""
LANES = (None, None, 1, 3)
"""Lanes of a memory; None, the usual case, twice as often."""


@cache
def machine(base: type, **fields: Any) -> type:
    """A machine whose memory has these fields."""
    return type("Life", (base,), fields)


def classic_life(rng: random.Random, base: type = classic.Machine, device: str = "cpu") -> Any:
    kind = rng.choice(list(classic.TWINS))
    fields = {"lanes": rng.choice(LANES), "n_step": rng.choice((1, 3)), "envs": rng.choice((1, 2))}
    return machine(base, kind=kind, device=device, **fields)()


def crystal_life(rng: random.Random, base: type = Planning, device: str = "cpu") -> Any:
    lanes, case = rng.choice(LANES), rng.choice(list(CASES))
    fields = {"lanes": lanes, "envs": rng.choice((1, 2)), "n_step": rng.choice((1, 1, 3))}
    own_rates = lanes == 3 and case in WITH_OWN_RATES and rng.random() < 0.5
    return machine(base, params=CASES[case], per_lane=own_rates, device=device, **fields)()


def life(make: Any, prepared: Path, number: int, size: int, rng: random.Random) -> Verdict:
    """One life; it ends at the first difference."""
    made, done, operations = make(rng), ["build"], 0
    try:
        begin(made, rng)
        refuse_other_backend(made)
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


def refuse_other_backend(made: Any) -> None:
    """Raise if the memory does not compute with the backend that the environment variable names."""
    wanted, got = os.environ.get("CRYSTALRL_BACKEND", "auto"), made.memory.backend.name
    assert wanted in ("auto", got), f"CRYSTALRL_BACKEND: wanted {wanted}, got {got}"


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


def no_cuda() -> str:
    return "" if torch.cuda.is_available() else "wanted CUDA, got none"


def fuzz(kind: str, name: str, where: str, full: int, device: str = "cpu", **options: Any) -> Attack:
    """Lives of classic or crystal memories; `name` begins with the backend, `where` is for the title."""
    backend = name.partition("-")[0]
    make, title, off_host = KINDS[kind]
    if backend in ("torch", "triton"):
        make = partial(make, base=off_host, device=device)
    environment = {"CRYSTALRL_BACKEND": backend, "TRITON_INTERPRET": "0" if device == "cuda" else "1"}
    return Attack(
        f"fuzz-{kind}-{name}", f"{title} ({where})", "operations", full, 30, partial(life, make),
        environment=environment, **{"prepare": quiet, "unit": LIFE, **options},
    )  # fmt: skip


def special(name: str, title: str, full: int, prepare: Any) -> Attack:
    return Attack(
        f"fuzz-{name}", title, "operations", full, 30, partial(life, crystal_life), prepare, LIFE,
        environment={"CRYSTALRL_BACKEND": "auto"},
    )  # fmt: skip


KINDS: dict[str, tuple[Any, str, type]] = {
    "classic": (classic_life, "Random operations: uniform, prioritized, reservoir", OffHostClassic),
    "crystal": (crystal_life, "Random operations: crystal memory, all presets", OffHostCrystal),
}
"""How a life begins, the title of the attack, and the machine for backends that are not on the host."""


def everywhere(kind: str, numba: int, numpy: int, torch_: int, triton: int, cuda: int) -> tuple[Attack, ...]:
    """The same operations with every backend; the numbers are operations."""
    on_cuda: dict[str, Any] = {"device": "cuda", "lacks": no_cuda, "smoke": False, "timeout": 900.0}
    interpreted: dict[str, Any] = {"unit": SHORT_LIFE, "lacks": no_interpreter, "smoke": False, "timeout": 900.0}
    return (
        fuzz(kind, "numba", "numba", numba, lacks=packages("numba")),
        fuzz(kind, "numpy", "NumPy", numpy),
        fuzz(kind, "torch", "torch", torch_),
        fuzz(kind, "triton", "Triton, interpreted", triton, **interpreted),
        fuzz(kind, "triton-cuda", "Triton on CUDA", cuda, **on_cuda),
        fuzz(kind, "torch-cuda", "torch on CUDA", cuda, **on_cuda),
    )


ATTACKS = (
    *everywhere("classic", 400_000, 200_000, 60_000, 4_000, 10_000),
    *everywhere("crystal", 220_000, 110_000, 20_000, 1_500, 4_000),
    special("no-numba", "numba is not installed", 10_000, without_numba),
    special("float64", "torch's default dtype is float64", 10_000, float64),
)
