"""Small crystal memories and streams for tests."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import torch

from crystalrl import Batch, CrystalMemory, CrystalParams, Evaluation, Transition


class WithLists(CrystalMemory):
    """Keeps neighbour lists even when it is small."""

    exact_up_to: ClassVar[dict[str, int]] = {"cpu": 16, "cuda": 16}


def memory_of(
    capacity: int = 64,
    params: CrystalParams | None = None,
    kind: type[CrystalMemory] = CrystalMemory,
    **options: Any,
) -> CrystalMemory:
    """With the anchors in `options`, if the parameters use any."""
    storage: dict[str, Any] = {"obs": (2,), "action": 3, "seed": 0, **options}
    if params is not None and not params.uses_anchors:
        storage.pop("anchor", None)
    return kind(capacity, params=params, **storage)


def stream(count: int, seed: int = 0, envs: int = 1, lead: tuple[int, ...] | None = None, **fields: Any) -> Any:
    """Random transitions of a memory with obs=(2,) and action=3; `lead` is [L, E], [E] or nothing."""
    rng = np.random.default_rng(seed)
    shape = lead if lead is not None else (() if envs == 1 else (envs,))
    for _ in range(count):
        given = {
            "obs": rng.normal(size=(*shape, 2)).astype(np.float32),
            "action": rng.integers(0, 3, shape),
            "reward": rng.normal(size=shape),
            "next_obs": rng.normal(size=(*shape, 2)).astype(np.float32),
            "terminated": rng.random(shape) < 0.05,
        }
        yield Transition(**{**given, **fields})


def feed(memory: CrystalMemory, count: int, seed: int = 0, **options: Any) -> list[int]:
    """Slots written."""
    return [int(memory.add(t, **options)) for t in stream(count, seed)]


def by_reward(batch: Batch) -> torch.Tensor:
    """A critic without knowledge: δ is the reward."""
    return batch.reward


def with_output(batch: Batch, factor: float = 1.0) -> Evaluation:
    assert isinstance(batch.obs, torch.Tensor)
    return Evaluation(batch.reward, {"q": batch.obs * factor})


def snapshot(memory: CrystalMemory) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in memory.state_dict().items()}
