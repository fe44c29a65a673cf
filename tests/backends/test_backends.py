"""Which backend serves a device."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from crystalrl import CrystalMemory
from crystalrl.backends import backend_for
from crystalrl.dynamics import EMPTY, LIQUID
from crystalrl.random import Streams
from tests.backends.lives import KINDS, built, compare_consolidated, compare_lives, life
from tests.conftest import INTERPRETED, computing_with

CPU = torch.device("cpu")
NAMES = ("numba", "numpy", "torch", *(["triton"] if INTERPRETED else []))


@pytest.mark.parametrize("name", NAMES)
def test_the_variable_names_the_backend(name: str) -> None:
    with computing_with(name):
        assert backend_for(CPU).name == name
        assert backend_for(CPU) is backend_for(CPU)


@pytest.mark.parametrize("name", ["numpy", "torch"])
@pytest.mark.parametrize(("kind", "n_step"), [(kind, 1 + (kind == "crystal")) for kind in KINDS])
def test_a_memory_lives_the_same_life_with_each_backend(name: str, kind: str, n_step: int) -> None:
    consolidations = compare_lives(*(built(kind, backend, n_step) for backend in ("auto", name)), steps=60)
    assert (consolidations > 0) == (kind not in ("prioritized", "reservoir"))


@pytest.mark.parametrize("tied", [False, True])
def test_lives_may_evict_another_experience_only_at_a_tie(tied: bool) -> None:
    one, other = (built("crystal", "auto", 1) for _ in range(2))
    for memory, evicted in ((one, 3), (other, 5)):
        assert isinstance(memory, CrystalMemory)
        life(memory, 45)
        memory.ledger.utility[0, [3, 5]] = torch.tensor([0.5, 0.5 + (1e-7 if tied else 1e-5)])
        phase = memory.ledger.phase
        phase[0, [3, 5]] = LIQUID
        phase[0, evicted] = EMPTY
        memory.ledger.relabel(phase, torch.ones(2, 1, dtype=torch.bool))
    if tied:
        compare_consolidated(one, other)
        return
    with pytest.raises(AssertionError, match=r"\[\[0, 3\], \[0, 5\]\]"):
        compare_consolidated(one, other)


def test_without_a_name_cpu_has_numba(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("numba")
    for value in (None, "auto"):
        monkeypatch.delenv("CRYSTALRL_BACKEND", raising=False)
        if value is not None:
            monkeypatch.setenv("CRYSTALRL_BACKEND", value)
        assert backend_for(CPU).name == "numba"


def test_an_unknown_name_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CRYSTALRL_BACKEND", "cupy")
    with pytest.raises(ValueError, match=r"CRYSTALRL_BACKEND: wanted auto or one of numba, numpy, .*got 'cupy'"):
        Streams([0])


def test_a_device_on_which_the_named_backend_does_not_work_has_its_usual_one(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("numba", "numpy", "triton"):
        monkeypatch.setenv("CRYSTALRL_BACKEND", name)
        assert backend_for(torch.device("meta")).name == "torch"


@pytest.mark.parametrize("name", NAMES)
def test_only_numba_and_numpy_work_on_the_host(name: str) -> None:
    with computing_with(name):
        chosen = backend_for(CPU)
    assert chosen.on_host == (name in ("numba", "numpy"))
    assert (chosen.pairs is not None) == (name in ("numba", "triton"))
    assert (chosen.graph is not None) == (name == "numba")
    assert (chosen.adam is not None) == (name == "triton")


@pytest.mark.parametrize("how", ["missing", "not wanted"])
def test_memories_work_where_numba_is_missing_or_not_wanted(how: str) -> None:
    code = """
import os, sys
if sys.argv[1] == "missing":
    sys.modules["numba"] = None  # importing it raises ImportError
else:
    os.environ["CRYSTALRL_BACKEND"] = "numpy"
from crystalrl import PrioritizedMemory, Transition
memory = PrioritizedMemory(10, obs=(2,), action=2)
assert memory.backend.name == "numpy"
for k in range(15):
    memory.add(Transition([float(k), 0.], 0, 0., [0., 0.], False))
batch = memory.sample(5)
memory.update(batch, batch.reward)
memory.check()
assert "numba.core" not in sys.modules
"""
    subprocess.run([sys.executable, "-W", "error", "-c", code, how], check=True)
