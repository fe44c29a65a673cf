"""Consolidation of large memories on CPU: time, memory, and how near the kept lists come to exact neighbours.

    python benchmarks/consolidation.py [--json FILE] [--quick] [--only NAME …]

A memory lives from empty: it is fed, and consolidated with every 5,000 new experiences, so all its lists come into
being as they would in use. Then follow the consolidations that are measured, the critic's answers not counted. For the
times, memories fill faster, and what they are fed is spread over the phases at once: a memory that had to crystallize
by itself would take days to be full. The peer is what one would do without kept lists: build a FAISS index (inverted
lists, half precision, the parameters that the memory itself uses) and ask it once for every experience; some of its
queries are timed after each of our consolidations, so that both meet the same load. Times are those of the process
(one thread); wall-clock times stand beside them.

Streams: AR(1) walks of 50 environments in 39 dimensions, independent Gaussian noise, on which no index does well, and
rollouts of MuJoCo tasks under slowly changing random actions.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from crystalrl import CrystalMemory, CrystalParams
from crystalrl.memory.neighbours.index import Ivf
from crystalrl.types import Batch

OBS, ACTION, ENVS, NEW = 39, 4, 50, 5000
QUERIES, JUDGED = 1000, 2000


class Walks:
    """States that follow themselves with correlation rho, begun anew every 500 steps; rho = 0 is noise."""

    obs, action, count = OBS, ACTION, ENVS

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


class Rollouts:
    """Ten environments of a MuJoCo task; actions follow themselves with correlation .9. options: for gymnasium.make."""

    def __init__(self, task: str, seed: int = 0, **options: Any) -> None:
        import gymnasium

        self.count = 10
        self.envs = [gymnasium.make(task, **options) for _ in range(self.count)]
        self.rng = np.random.default_rng(seed)
        self.state = [env.reset(seed=seed + n)[0].astype(np.float32) for n, env in enumerate(self.envs)]
        self.obs, self.action = len(self.state[0]), self.envs[0].action_space.shape[0]  # type: ignore[index]
        self.last = np.zeros((10, self.action))

    def take(self, count: int) -> dict[str, Any]:
        rows: dict[str, list[Any]] = {"obs": [], "next_obs": [], "action": [], "reward": []}
        for _ in range(count // 10):
            self.last = 0.9 * self.last + 0.44 * self.rng.normal(size=self.last.shape)
            for n, env in enumerate(self.envs):
                low, high = env.action_space.low, env.action_space.high  # type: ignore[attr-defined]
                action = np.clip(self.last[n] * high, low, high).astype(np.float32)
                following, reward, terminated, truncated, _ = env.step(action)
                following = following.astype(np.float32)
                for name, value in zip(rows, (self.state[n], following, action, float(reward)), strict=True):
                    rows[name].append(value)
                self.state[n] = following
                if terminated or truncated:
                    self.state[n] = env.reset()[0].astype(np.float32)
        return {name: np.asarray(values, np.float32) for name, values in rows.items()}


def _meta_world(task: str) -> Rollouts:
    import metaworld  # noqa: F401  (it registers its tasks)

    return Rollouts("Meta-World/MT1", env_name=task, disable_env_checker=True)


def feed(memory: CrystalMemory, source: Any, count: int) -> None:
    """Store many at a time; what `add` would do one step at a time."""
    rows = torch.zeros(1, count, memory.arena.layout.words, dtype=torch.int64)
    columns = memory.arena.layout.torch_views(rows)
    for name, values in source.take(count).items():
        columns[name].copy_(torch.as_tensor(values)[None])
    columns["discount"].fill_(0.99)
    memory.ledger.reserve(count)
    memory._store(rows, torch.ones(1, count, dtype=torch.bool))
    memory.time += count


def critic(batch: Batch) -> torch.Tensor:
    assert isinstance(batch.obs, torch.Tensor)
    assert isinstance(batch.next_obs, torch.Tensor)
    return batch.reward + torch.sin(batch.next_obs[..., 0]) - torch.sin(batch.obs[..., 0])


def judged(memory: CrystalMemory) -> dict[str, float]:
    """Recall@10 of the lists just used, and the mean error of V over its deviation, against exact neighbours."""
    graph, ledger = memory.neighbours.graph, memory.ledger
    assert graph is not None
    assert graph.successor_lists is not None
    stored = (ledger.phase[0] > 0).nonzero()[:, 0]
    rows = stored[torch.randperm(len(stored), generator=torch.Generator().manual_seed(1))[:JUDGED]]
    queries = graph.states.vectors("next_obs", rows[None])[0]
    near, slot = torch.empty(len(rows), 0), torch.empty(len(rows), 0, dtype=torch.int64)
    for part in stored.split(1 << 17):
        apart = torch.cdist(queries, graph.states.vectors("obs", part[None])[0])
        apart[rows[:, None] == part] = torch.inf
        least, at = apart.topk(10, largest=False)
        near, order = torch.cat([near, least], 1).topk(10, largest=False)
        slot = torch.cat([slot, part[at]], 1).gather(1, order)
    mine = graph.successor_lists.index[0, rows, :10].to(torch.int64)
    recall = float((slot[:, :, None] == mine[:, None, :]).any(-1).float().mean())
    exact = ledger.error[0][slot].mean(-1)
    listed = (ledger.error[0][mine.clamp_min(0)] * (mine >= 0)).sum(-1) / (mine >= 0).sum(-1).clamp_min(1)
    return {"recall": recall, "value_error": float((listed - exact).abs().mean() / exact.std())}


def bytes_of(memory: Any) -> dict[str, float]:
    """Per slot: payload, ledger (with the visit counts, without anchors), neighbour lists, copies of vectors."""
    lists = getattr(getattr(memory, "neighbours", None), "graph", None)
    listed, vectors = (lists.list_bytes, lists.nbytes - lists.list_bytes) if lists else (0, 0)
    anchors = sum(anchor.nbytes for anchor in getattr(memory, "anchors", {}).values())
    parts = {"payload": memory.arena.nbytes, "lists": listed, "vectors": vectors}
    parts["ledger"] = memory.nbytes - sum(parts.values()) - anchors
    return {name: count / memory.capacity for name, count in parts.items()}


class Peer:
    """An index built anew, and what asking it for every experience takes: seconds of the process and of the clock.

    Vectors are given to FAISS as they are, or padded to a multiple of eight coordinates, as the memory itself does.
    """

    def __init__(self, memory: CrystalMemory) -> None:
        import faiss

        assert memory.neighbours.graph is not None
        states, occupied = memory.neighbours.graph.states, memory.ledger.phase[0] > 0
        slots = occupied.nonzero()[:, 0]
        self.count, lists = len(slots), int(Ivf.lists_per_root * len(slots) ** 0.5)
        coarse = faiss.IndexFlatL2(states.size)
        kind = faiss.ScalarQuantizer.QT_fp16
        self.index = faiss.IndexIVFScalarQuantizer(coarse, states.size, lists, kind, faiss.METRIC_L2, False)
        self.index.cp.niter, self.index.cp.min_points_per_centroid, self.index.nprobe = 10, 1, Ivf.min_probes
        vectors = states.of_lane("obs", 0, slots).numpy()
        self.built = timed(lambda: self._build(vectors, max(1, len(slots) // (lists * Ivf.trained_on))))
        some = slots[torch.randperm(len(slots), generator=torch.Generator().manual_seed(2))[:QUERIES]]
        self.queries = states.of_lane("next_obs", 0, some).numpy()
        wide = -(-states.size // Ivf.pad_to) * Ivf.pad_to
        self.padded = np.pad(self.queries, ((0, 0), (0, wide - states.size)))
        self.rounds: dict[str, list[tuple[float, float]]] = {"peer": [], "padded_peer": []}

    def _build(self, vectors: Any, step: int) -> None:
        self.index.train(vectors[::step])
        self.index.add(vectors)

    def ask(self, memory: CrystalMemory) -> None:
        assert memory.neighbours.graph is not None
        assert isinstance(memory.neighbours.graph.index, Ivf)
        padded = memory.neighbours.graph.index.indices[0]
        padded.nprobe = Ivf.min_probes
        self.rounds["peer"].append(timed(lambda: self.index.search(self.queries, 10)))
        self.rounds["padded_peer"].append(timed(lambda: padded.search(self.padded, 10)))

    def seconds(self, name: str) -> tuple[float, float]:
        process, wall = (
            sum(each) / len(self.rounds[name]) / len(self.queries) * self.count
            for each in zip(*self.rounds[name], strict=True)
        )
        return self.built[0] + process, self.built[1] + wall


def timed(work: Callable[[], Any]) -> tuple[float, float]:
    """Seconds of the process and of the clock."""
    process, wall = time.process_time(), time.perf_counter()
    work()
    return time.process_time() - process, time.perf_counter() - wall


def spread(memory: CrystalMemory) -> None:
    """Put what is liquid beyond its share into glass and crystal, at random, as it would be after a long life."""
    ledger, shares = memory.ledger, torch.tensor(memory.ledger.caps, dtype=torch.float64)
    phase = ledger.phase
    new = (phase == 1) & ((ledger.flags & 1) == 0)
    drawn = torch.multinomial(shares, memory.capacity, replacement=True, generator=torch.Generator().manual_seed(0)) + 1
    ledger.c.copy_(torch.where(new, (drawn - 1) * 0.4 + 0.1, ledger.c))
    ledger.relabel(torch.where(new, drawn.to(torch.uint8), phase), torch.ones(1, 1, dtype=torch.bool))


def measured(source: Any, size: int, turns: int, filling: int | None = None, new: int = NEW) -> dict[str, Any]:
    """A life: until as many experiences came as there are slots, then so many consolidations that count.

    filling: so many at a time, in the first half spread over the phases; then it is timed beside its peer. (What is too
    much of a phase is given up at once when time begins to pass, and lists need a while to recover.)
    """
    shape: dict[str, Any] = {"obs": (source.obs,), "action": (source.action,)}
    memory = CrystalMemory(size, params=CrystalParams.anchored(), envs=source.count, seed=0, **shape)
    fills = size // (filling or new)
    for number in range(fills):
        feed(memory, source, filling or new)
        if filling and number < fills // 2:  # no time passes, so that nothing is given up yet
            memory.time -= filling
            spread(memory)
        memory.consolidate(critic)
    peer = Peer(memory) if filling else None
    stages: dict[str, float] = {}
    rounds: list[tuple[float, float]] = []
    last: dict[str, float] = {}
    for turn in range(turns):
        feed(memory, source, new)
        process, wall = time.process_time(), time.perf_counter()
        plan = memory.plan(critic)
        taken = time.process_time() - process, time.perf_counter() - wall
        if turn == turns - 1:
            last = judged(memory)
        process, wall = time.process_time(), time.perf_counter()
        report = memory.apply(plan)
        evaluate = report.seconds["evaluate"]
        taken = taken[0] + time.process_time() - process, taken[1] + time.perf_counter() - wall
        rounds.append((taken[0] - evaluate, taken[1] - evaluate))
        for name, seconds in report.seconds.items():
            stages[name] = stages.get(name, 0.0) + seconds / turns
        if peer is not None:
            peer.ask(memory)
    ours = [sum(each) / turns for each in zip(*rounds, strict=True)]
    result: dict[str, Any] = {
        "seconds": ours[0], "wall_seconds": ours[1], "worst": max(each[0] for each in rounds), "turns": turns,
        "experiences": int((memory.ledger.phase > 0).sum()),
        "stages": stages, "bytes": (memory.nbytes - memory.arena.nbytes) / size, "parts": bytes_of(memory), **last,
    }  # fmt: skip
    if peer is not None:
        for name, mark in (("peer", ""), ("padded_peer", "padded_")):
            theirs = peer.seconds(name)
            result |= {f"{mark}peer_seconds": theirs[0], f"{mark}peer_wall_seconds": theirs[1]}
            result |= {f"{mark}ratio": ours[0] / theirs[0], f"{mark}wall_ratio": ours[1] / theirs[1]}
    return result


def many_adds(slots: int = 20_000, adds: int = 10**7) -> dict[str, Any]:
    """Resident memory, in MiB, after a tenth of the adds and after all, with a consolidation every 50,000."""
    source = Walks(0.98)
    memory = CrystalMemory(slots, obs=(OBS,), action=(ACTION,), params=CrystalParams.anchored(), envs=ENVS, seed=0)
    batch, resident = ENVS, {}
    block = source.take(500 * batch)
    for number in range(adds // batch):
        part = number % 500
        rows = torch.zeros(1, batch, memory.arena.layout.words, dtype=torch.int64)
        columns = memory.arena.layout.torch_views(rows)
        for name, values in block.items():
            columns[name].copy_(torch.as_tensor(values[part * batch : (part + 1) * batch])[None])
        memory.ledger.reserve(batch)
        memory._store(rows, torch.ones(1, batch, dtype=torch.bool))
        memory.time += batch
        if number % 1000 == 999:
            memory.consolidate(critic)
        if (number + 1) * batch in (adds // 10, adds):
            resident[f"{(number + 1) * batch}"] = _resident()
    return {
        "slots": slots,
        "resident_mib": resident,
        "largest_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def _resident() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


PARTS: dict[str, Callable[[], dict[str, Any]]] = {
    "speed 100000": lambda: measured(Walks(0.98), 100_000, 8, filling=25_000),
    "speed 1000000": lambda: measured(Walks(0.98), 1_000_000, 6, filling=50_000),
    "speed 2000000": lambda: measured(Walks(0.98), 2_000_000, 4, filling=100_000),
    "walks, .98": lambda: measured(Walks(0.98), 100_000, 50),
    "walks, .998": lambda: measured(Walks(0.998), 100_000, 50),
    "HalfCheetah-v5": lambda: measured(Rollouts("HalfCheetah-v5"), 100_000, 50),
    "Hopper-v5": lambda: measured(Rollouts("Hopper-v5"), 100_000, 50),
    "Meta-World push-v3": lambda: measured(_meta_world("push-v3"), 40_000, 50, new=2000),
    "noise": lambda: measured(Walks(0.0), 100_000, 50),
    "adds": many_adds,
}


def quick() -> dict[str, Any]:
    """A memory of 40,000 in seconds, for `benchmarks/memory.py`."""
    return measured(Walks(0.98), 40_000, 3, filling=20_000)


def main() -> None:
    parser = argparse.ArgumentParser(description="Consolidation of large memories on CPU.")
    parser.add_argument("--json", type=Path, help="write the numbers to this file, beside those of other parts")
    parser.add_argument("--quick", action="store_true", help="40,000 slots only")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS), help="only these parts")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.quick:
        print(json.dumps(quick(), indent=2))
        return
    result: dict[str, Any] = {}
    if options.json and options.json.exists():
        result = json.loads(options.json.read_text())
    for name in options.only:
        result[name] = PARTS[name]()
        small, large = (result.get(f"speed {size}") for size in (100_000, 1_000_000))
        if small and large:
            result |= {"consolidation_vs_faiss": large["ratio"], "growth": large["seconds"] / small["seconds"]}
        print(json.dumps({name: result[name]}, indent=2), flush=True)
        if options.json:
            options.json.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
