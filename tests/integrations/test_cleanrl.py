"""The single-file agents learn, differ from a plain loop only where they say so, and weigh as they should."""

from __future__ import annotations

import importlib
import subprocess
import sys
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
def test_a_short_run_ends_and_its_memory_gives_the_next_batches_in_another_process(name: str, tmp_path: Path) -> None:
    arguments = ("--steps", "900", "--out", str(tmp_path))
    assert "mean return" in python(f"{name}.py", *arguments, at=tmp_path)
    kept = load_memory(tmp_path / "memory.safetensors")
    script = (
        "import sys, crystalrl as c; m = c.load_memory(sys.argv[1]); m.sample(64); print(m.sample(64).index.tolist())"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "memory.safetensors")]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    kept.sample(64)
    assert told.strip() == str(kept.sample(64).index.tolist())


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
