"""Consolidation of large memories on CPU: time, memory, and how near the kept lists come to exact neighbours.

    python benchmarks/consolidation.py [--json FILE] [--quick]

The peer is what one would do without kept lists: build a FAISS index (inverted lists, half precision, the parameters
that the memory itself uses) and ask it once for every experience; its N queries are timed on a sample. Ours is the mean
over consolidations with 5,000 new experiences before each, the critic's answers not counted. Streams: AR(1) walks of 50
environments, 39 dimensions, and independent Gaussian noise, on which no index does well.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from crystalrl import CrystalMemory, CrystalParams
from crystalrl.memory.search import Ivf
from crystalrl.types import Batch

OBS, ACTION, ENVS, NEW = 39, 4, 50, 5000
QUERIES, JUDGED, TURNS = 10_000, 300, 8


class Walks:
    """States that follow themselves with correlation rho, begun anew every 500 steps; rho = 0 is noise."""

    def __init__(self, rho: float, seed: int = 0) -> None:
        self.rho, self.rng, self.step = rho, np.random.default_rng(seed), 0
        self.state = self._draw()

    def _draw(self) -> Any:
        return self.rng.normal(size=(ENVS, OBS)).astype(np.float32)

    def take(self, count: int) -> dict[str, Any]:
        steps = count // ENVS
        obs, following = np.empty((2, steps, ENVS, OBS), np.float32)
        for t in range(steps):
            obs[t] = self.state
            self.state = self.rho * self.state + np.float32((1 - self.rho**2) ** 0.5) * self._draw()
            following[t] = self.state
            self.step += 1
            if self.step % 500 == 0:
                self.state = self._draw()
        action = self.rng.uniform(-1, 1, (count, ACTION)).astype(np.float32)
        flat = following.reshape(count, OBS)
        reward = np.sin(2 * flat[:, 0])
        return {"obs": obs.reshape(count, OBS), "next_obs": flat, "action": action, "reward": reward}


def feed(memory: CrystalMemory, walks: Walks, count: int) -> None:
    """Store many at a time; what `add` would do one step at a time."""
    rows = torch.zeros(1, count, memory.arena.layout.words, dtype=torch.int64)
    columns = memory.arena.layout.torch_views(rows)
    for name, values in walks.take(count).items():
        columns[name].copy_(torch.as_tensor(values)[None])
    columns["discount"].fill_(0.99)
    memory.ledger.reserve(count)
    memory._store(rows, torch.ones(1, count, dtype=torch.bool))
    memory.time += count


def filled(size: int, walks: Walks) -> CrystalMemory:
    """A full memory with experiences in all phases, as after a long life."""
    memory = CrystalMemory(size, obs=(OBS,), action=(ACTION,), params=CrystalParams.anchored(), envs=ENVS, seed=0)
    for _ in range(size // 50_000):
        feed(memory, walks, 50_000)
    ledger, (liquid, glass, _) = memory.ledger, memory.ledger.caps
    order = torch.randperm(size, generator=torch.Generator().manual_seed(0))
    phase = torch.ones(1, size, dtype=torch.uint8)
    phase[0, order[liquid:]] = 2
    phase[0, order[liquid + glass :]] = 3
    ledger.c.copy_((phase - 1) * 0.4 + 0.1)
    ledger.relabel(phase, torch.ones(1, 1, dtype=torch.bool))
    return memory


def critic(batch: Batch) -> torch.Tensor:
    assert isinstance(batch.obs, torch.Tensor)
    assert isinstance(batch.next_obs, torch.Tensor)
    return batch.reward + torch.sin(batch.next_obs[..., 0]) - torch.sin(batch.obs[..., 0])


def judged(memory: CrystalMemory) -> dict[str, float]:
    """Recall@10 of the lists just used, and the mean error of V over its deviation, against exact neighbours."""
    vicinity, ledger = memory.vicinity, memory.ledger
    assert vicinity is not None
    assert vicinity.ahead is not None
    occupied = ledger.phase[0] > 0
    stored = occupied.nonzero()[:, 0]
    rows = stored[torch.randperm(len(stored), generator=torch.Generator().manual_seed(1))[:JUDGED]]
    queries, best = vicinity.states.vectors("next_obs", rows[None])[0], None
    for part in stored.split(1 << 17):
        apart = torch.cdist(queries, vicinity.states.vectors("obs", part[None])[0])
        apart[rows[:, None] == part] = torch.inf
        near, at = apart.topk(10, largest=False)
        near, at = (
            (near, part[at]) if best is None else (torch.cat([best[0], near], 1), torch.cat([best[1], part[at]], 1))
        )
        order = near.topk(10, largest=False).indices
        best = near.gather(1, order), at.gather(1, order)
    assert best is not None
    mine = vicinity.ahead.index[0, rows, :10].to(torch.int64)
    recall = float((best[1][:, :, None] == mine[:, None, :]).any(-1).float().mean())
    error = ledger.error[0]
    exact = error[best[1]].mean(-1)
    listed = (error[mine.clamp_min(0)] * (mine >= 0)).sum(-1) / (mine >= 0).sum(-1).clamp_min(1)
    return {"recall": recall, "value_error": float((listed - exact).abs().mean() / exact.std())}


def peer(memory: CrystalMemory) -> float:
    """Seconds of building an index anew and asking it once for every experience."""
    vicinity, occupied = memory.vicinity, memory.ledger.phase > 0
    assert vicinity is not None
    index, begin = Ivf(1, OBS), time.perf_counter()
    index.build(occupied, torch.ones(1, dtype=torch.bool), lambda slots: vicinity.states.vectors("obs", slots))
    built = time.perf_counter() - begin
    slots = occupied[0].nonzero()[:, 0]
    some = slots[:: max(1, len(slots) // QUERIES)][None]
    queries, real = vicinity.states.vectors("next_obs", some), torch.ones_like(some, dtype=torch.bool)
    begin = time.perf_counter()
    index.search(queries, real, 10)
    return built + (time.perf_counter() - begin) * len(slots) / some.shape[1]


def measured(size: int, turns: int, rho: float) -> dict[str, Any]:
    walks = Walks(rho)
    memory = filled(size, walks)
    memory.consolidate(critic)
    stages: dict[str, float] = {}
    rounds = []
    for turn in range(turns):
        feed(memory, walks, NEW)
        plan = memory.plan(critic)
        last = judged(memory) if turn == turns - 1 else {}
        report = memory.apply(plan)
        rounds.append(sum(report.seconds.values()) - report.seconds["evaluate"])
        for name, seconds in report.seconds.items():
            stages[name] = stages.get(name, 0.0) + seconds / turns
    theirs = peer(memory)
    own = (memory.nbytes - memory.arena.nbytes) / size
    return {
        "seconds": sum(rounds) / turns, "worst": max(rounds), "peer_seconds": theirs, "turns": turns,
        "ratio": sum(rounds) / turns / theirs, "stages": stages, "bytes": own, **last,
    }  # fmt: skip


def run(quick: bool) -> Iterator[dict[str, Any]]:
    """Everything, by size and stream; what there is so far, again and again."""
    result: dict[str, Any] = {"threads": torch.get_num_threads(), "walks": {}, "quality": {}}
    for size in (100_000,) if quick else (100_000, 1_000_000):
        result["walks"][str(size)] = measured(size, TURNS, 0.98)
        if len(result["walks"]) == 2:
            small, large = result["walks"].values()
            result["consolidation_vs_faiss"] = large["ratio"]
            result["growth"] = large["seconds"] / small["seconds"]
        yield result
    if not quick:
        for name, rho in {"walks, 0.998": 0.998, "walks, 0.98": 0.98, "noise": 0.0}.items():
            result["quality"][name] = measured(100_000, 50, rho)
            yield result


def main() -> None:
    parser = argparse.ArgumentParser(description="Consolidation of large memories on CPU.")
    parser.add_argument("--json", type=Path, help="write the numbers to this file")
    parser.add_argument("--quick", action="store_true", help="100,000 slots only")
    options = parser.parse_args()
    for result in run(options.quick):
        print(json.dumps(result, indent=2), flush=True)
        if options.json:
            options.json.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
