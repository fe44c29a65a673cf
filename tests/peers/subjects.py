"""Which memories and buffers a test of the peers runs with."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import pytest

from tests.peers.integrated import Sb3Crystal, Sb3Prioritized, Tianshou, TorchRL
from tests.peers.native import Crystal, Prioritized, Reservoir, Subject, Uniform


def _each(*kinds: tuple[type[Subject], str]) -> Any:
    """A parametrisation; a subject whose library is missing is skipped."""
    return [pytest.param(kind, id=kind.__name__, marks=_needs(package)) for kind, package in kinds]


def _needs(package: str) -> Any:
    return pytest.mark.skipif(bool(package) and find_spec(package) is None, reason=f"needs {package}")


NATIVE = ((Uniform, ""), (Reservoir, ""), (Prioritized, ""), (Crystal, ""))
INTEGRATED = (
    (Sb3Crystal, "stable_baselines3"),
    (Sb3Prioritized, "stable_baselines3"),
    (Tianshou, "tianshou"),
    (TorchRL, "torchrl"),
)
WITH_PRIORITIES = ((Prioritized, ""), (Crystal, ""), *INTEGRATED)
WITH_N_STEPS = ((Uniform, ""), (Prioritized, ""), (Crystal, ""), *INTEGRATED[:2])
every_n_step = pytest.mark.parametrize("kind", _each(*WITH_N_STEPS))
every_subject = pytest.mark.parametrize("kind", _each(*NATIVE, *INTEGRATED))
every_prioritized = pytest.mark.parametrize("kind", _each(*WITH_PRIORITIES))
