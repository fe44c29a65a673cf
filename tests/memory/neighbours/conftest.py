"""Small tensors: a second thread would wait more than it works. Limits that let small memories keep lists."""

import pytest
import torch

from crystalrl import CrystalMemory

torch.set_num_threads(1)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memories keep lists from 16 slots on."""
    monkeypatch.setattr(CrystalMemory, "exact_up_to", {"cpu": 16})


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Widths are multiples of 128 slots, and memories keep lists from 128 slots on."""
    monkeypatch.setattr(CrystalMemory, "exact_up_to", {"cpu": 128})
    monkeypatch.setattr(CrystalMemory, "block", 128)
