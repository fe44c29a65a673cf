"""The single-file agents learn, differ from a plain loop only where they say so, and weigh as they should."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from crystalrl import Anchor, Batch, load_memory
from tests.integrations.test_examples import EXAMPLES, python


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    return importlib.import_module


@pytest.mark.parametrize("name", ["cleanrl_dqn", "cleanrl_sac"])
def test_a_short_run_ends_and_saves_its_memory(name: str, tmp_path: Path) -> None:
    arguments = ("--steps", "900", "--out", str(tmp_path))
    assert "mean return" in python(f"{name}.py", *arguments, at=tmp_path)
    assert len(load_memory(tmp_path / "memory.safetensors")) > 800


@pytest.mark.parametrize("name", ["cleanrl_dqn", "cleanrl_sac"])
def test_a_seed_decides_everything(name: str, example: Any) -> None:
    file = example(name)
    one, two, other = (file.train(file.Args(steps=700, seed=seed)) for seed in (1000, 1000, 1001))
    assert one == two != other


def test_the_loss_of_the_dqn_is_that_of_a_loop_over_the_samples(example: Any) -> None:
    dqn = example("cleanrl_dqn")
    size, generator = 12, torch.Generator().manual_seed(0)
    q = torch.randn(size, 2, generator=generator, requires_grad=True)
    error = torch.randn(size, generator=generator) * 2 - q[:, 0]
    weight, target, strength = (torch.rand(size, *s, generator=generator) for s in ((), (2,), ()))
    nothing = torch.zeros(size)
    batch = Batch(nothing, nothing, nothing, nothing, nothing, weight, nothing, anchor={"q": Anchor(target, strength)})
    loss = torch.zeros(())
    for b in range(size):
        huber = error[b] ** 2 / 2 if abs(error[b]) <= 1 else abs(error[b]) - 0.5
        loss = loss + (weight[b] * huber + strength[b] * ((q[b] - target[b]) ** 2).sum()) / size
    ours, theirs = (torch.autograd.grad(x, q, retain_graph=True)[0] for x in (dqn.loss_of(q, error, batch), loss))
    assert float((ours - theirs).abs().max() / theirs.abs().max()) <= 1e-6


@pytest.mark.slow
def test_a_small_dqn_with_a_crystal_memory_learns(example: Any) -> None:
    dqn = example("cleanrl_dqn")
    returns = dqn.train(dqn.Args(steps=4_000, seed=1001, exploration=0.3))
    assert np.mean(returns[-10:]) > 100  # at random 22
