"""Memories filled by random walks, and what their neighbour lists should hold."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from crystalrl import Batch, CrystalMemory, CrystalParams, Evaluation, Transition
from crystalrl.memory.neighbours.exact import Near, nearest
from crystalrl.memory.neighbours.graph import NeighbourGraph
from crystalrl.memory.neighbours.neighbourhood import Neighbourhood


def walk(memory: CrystalMemory, steps: int, seed: int, turning: int = 10**9) -> None:
    """Walks in a square, one per environment of the memory; the reward turns over after every `turning` steps."""
    rng, envs = np.random.default_rng(seed), memory.spec.envs
    state = rng.uniform(size=(envs, 2)).astype(np.float32)
    for step in range(steps):
        action = rng.integers(0, 4, envs)
        move = np.array([[0.05, 0], [-0.05, 0], [0, 0.05], [0, -0.05]])[action]
        following = np.clip(state + move + rng.normal(scale=0.01, size=(envs, 2)), 0, 1).astype(np.float32)
        goal = (following[:, 0] > 0.5) != (step % (2 * turning) >= turning)
        memory.add(Transition(state, action, goal.astype(np.float32), following, np.zeros(envs, bool)))
        ends = rng.random((envs, 1)) < 0.01
        state = np.where(ends, rng.uniform(size=(envs, 2)), following).astype(np.float32)
        if memory.due:
            memory.consolidate(critic)


def critic(batch: Batch) -> Evaluation:
    assert isinstance(batch.obs, torch.Tensor)
    value = torch.sin(3 * batch.obs[..., 0])
    return Evaluation(batch.reward - value, {"q": value[..., None]})


def memory_of(slots: int, **changes: Any) -> CrystalMemory:
    params = CrystalParams.anchored(**changes)
    return CrystalMemory(
        slots, obs=(2,), action=4, params=params, anchor={"q": (1,)} if params.uses_anchors else None, envs=20, seed=0
    )


def refresh(memory: CrystalMemory) -> Neighbourhood:
    """The neighbours of everything stored now."""
    return memory.neighbours.refresh(memory.snapshot())


def graph_of(memory: CrystalMemory) -> NeighbourGraph:
    assert memory.neighbours.graph is not None
    return memory.neighbours.graph


def successor_lists(memory: CrystalMemory) -> torch.Tensor:
    """int64[used, k]: the lists of the only lane."""
    lists = graph_of(memory).successor_lists
    assert lists is not None
    return lists.index[0, : memory.ledger.used, : memory.params.k].to(torch.int64)


def exact_neighbours(memory: CrystalMemory) -> Near:
    """Neighbours from all pairs, in the units that the lists use."""
    every = torch.arange(memory.ledger.used)[None]
    state, successor = (graph_of(memory).states.vectors(role, every) for role in ("obs", "next_obs"))
    return nearest(successor, state, memory.ledger.phase[:, : memory.ledger.used] > 0, memory.params.k)


def recall(memory: CrystalMemory) -> float:
    """Share of the exact neighbours that the lists hold after they are refreshed."""
    refresh(memory)
    exact, stored = exact_neighbours(memory), memory.ledger.phase[0, : memory.ledger.used] > 0
    return float((exact.index[0, :, :, None] == successor_lists(memory)[:, None, :]).any(-1)[stored].float().mean())


def uneven(memory: CrystalMemory, lane: int | None, steps: range) -> list[torch.Tensor]:
    """What three lanes do, or one of them: the first fills at once, the second more slowly, the last hardly at all."""
    seen, mine = [], slice(None) if lane is None else slice(lane, lane + 1)
    for step in steps:
        rng = np.random.default_rng(step)
        state, following = rng.normal(size=(2, 3, 4, 2)).astype(np.float32)
        action, reward = rng.integers(0, 4, (3, 4)), rng.integers(0, 2, (3, 4)).astype(np.float32)
        valid, ends = np.ones((3, 4), bool), np.zeros((3, 4), bool)
        valid[1], valid[2] = step % 3 == 0, step % 20 == 0
        if not memory.features.discrete:
            action = action[..., None].astype(np.float32)
        fields = (x[mine] for x in (state, action, reward, following, ends))
        memory.add(Transition(*fields), valid=valid[mine])
        if step % 20 == 19:
            report = memory.consolidate(critic)
            phase = memory.ledger.phase
            seen += [report.values["epsilon"], report.values["contradicted"], phase]
            seen += [getattr(memory.ledger, name) * (phase > 0) for name in ("c", "interference", "utility")]
    return seen


def uneven_memory(lanes: int, seed: int, **options: Any) -> CrystalMemory:
    shape: dict[str, Any] = {"obs": (2,), "action": 4, "anchor": {"q": (1,)}, "envs": 4, **options}
    return CrystalMemory(600, params=CrystalParams.anchored(time_unit=60), lanes=lanes, seed=seed, **shape)
