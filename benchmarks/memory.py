"""Speed of the memories beside their peers, in one process, in interleaved rounds.

    python benchmarks/memory.py [--json FILE] [--quick]

Ratios are our rate divided by the peer's rate in the same round (bigger is better); the median over rounds is reported,
so that a noisy machine slows both sides. One lane, observation 39, action 4, batch 256, float32.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.progress import track
from rich.table import Table

sys.path += [str(Path(__file__).parent.parent)]

from benchmarks import consolidation
from crystalrl import (
    CrystalMemory,
    CrystalParams,
    PrioritizedMemory,
    ReservoirMemory,
    Transition,
    UniformMemory,
    kernels,
)

OBS, ACTION, BATCH = 39, 4, 256
SIZES = (100_000, 1_000_000)
CHUNK = 50_000
Job = Callable[[], float]
"""One round of work; seconds per operation."""


@contextmanager
def numba(on: bool) -> Iterator[None]:
    """Memories built inside use numba, or the NumPy fallback."""
    os.environ["CRYSTALRL_NUMBA"] = str(int(on))
    kernels.load.cache_clear()
    try:
        yield
    finally:
        os.environ["CRYSTALRL_NUMBA"] = "1"
        kernels.load.cache_clear()


def experiences(count: int) -> dict[str, np.ndarray]:
    source = np.random.default_rng(0)
    return {
        "obs": source.random((count, OBS), dtype=np.float32),
        "next_obs": source.random((count, OBS), dtype=np.float32),
        "act": source.random((count, ACTION), dtype=np.float32),
        "rew": source.random(count, dtype=np.float32),
        "done": np.zeros(count, dtype=np.float32),
    }


def filled(memory: Any) -> Any:
    """Fill every slot, many at a time."""
    words = memory.arena.layout.words
    data = experiences(CHUNK)
    rows = torch.zeros(1, CHUNK, words, dtype=torch.int64)
    columns = memory.arena.layout.torch_views(rows)
    for name, key in (("obs", "obs"), ("next_obs", "next_obs"), ("action", "act"), ("reward", "rew")):
        columns[name].copy_(torch.from_numpy(data[key])[None])
    for start in range(0, memory.capacity, CHUNK):
        count = min(CHUNK, memory.capacity - start)
        memory._store(rows[:, :count], torch.ones(1, count, dtype=torch.bool))
    return memory


def crystal(size: int) -> CrystalMemory:
    """A crystal memory of the recommended kind whose experiences lie in all three phases, as after consolidations."""
    memory = filled(CrystalMemory(size, obs=(OBS,), action=(ACTION,), params=CrystalParams.anchored()))
    ledger, (liquid, glass, _) = memory.ledger, memory.ledger.caps
    phase = torch.ones(1, size, dtype=torch.uint8)
    phase[:, liquid:] = 2
    phase[:, liquid + glass :] = 3
    ledger.c.copy_((phase - 1) * 0.4 + 0.1)
    ledger.flags.fill_(1)
    ledger.error.uniform_()
    ledger.utility.uniform_()
    ledger.relabel(phase, torch.ones(1, 1, dtype=torch.bool))
    return memory


def timed(operation: Callable[[int], Any], count: int) -> float:
    begin = time.perf_counter()
    for i in range(count):
        operation(i)
    return (time.perf_counter() - begin) / count


def ours(memory: Any, count: int) -> dict[str, Job]:
    data = experiences(1000)
    td = torch.rand(BATCH)

    def add(i: int) -> None:
        k = i % 1000
        memory.add(Transition(data["obs"][k], data["act"][k], float(data["rew"][k]), data["next_obs"][k], False))

    def sample(_: int) -> None:
        memory.update(memory.sample(BATCH).index, td)

    return {
        "add": lambda: timed(add, 4 * count),
        "sample": lambda: timed(lambda _: memory.sample(BATCH), count),
        "sample_update": lambda: timed(sample, count),
    }


def cpprb_jobs(size: int, count: int) -> dict[str, Job]:
    from cpprb import PrioritizedReplayBuffer

    shapes = {"obs": {"shape": OBS}, "act": {"shape": ACTION}, "rew": {}, "next_obs": {"shape": OBS}, "done": {}}
    buffer = PrioritizedReplayBuffer(size, shapes)
    data = experiences(CHUNK)
    for _ in range(size // CHUNK):
        buffer.add(**data)
    td = np.random.default_rng(0).random(BATCH)

    def add(i: int) -> None:
        k = i % 1000
        buffer.add(**{name: column[k] for name, column in data.items()})

    def sample(_: int) -> None:
        buffer.update_priorities(buffer.sample(BATCH, beta=0.4)["indexes"], td)

    return {"add": lambda: timed(add, 4 * count), "sample_update": lambda: timed(sample, count)}


def sb3_jobs(size: int, count: int) -> dict[str, Job]:
    from gymnasium.spaces import Box
    from stable_baselines3.common.buffers import ReplayBuffer

    buffer = ReplayBuffer(
        size, Box(-1, 1, (OBS,), np.float32), Box(-1, 1, (ACTION,), np.float32), handle_timeout_termination=False
    )
    data = experiences(CHUNK)
    for start in range(0, size, CHUNK):
        part = slice(start, start + CHUNK)
        buffer.observations[part, 0], buffer.next_observations[part, 0] = data["obs"], data["next_obs"]
        buffer.actions[part, 0], buffer.rewards[part, 0] = data["act"], data["rew"]
    buffer.full = True
    return {"sample": lambda: timed(lambda _: buffer.sample(BATCH), count)}


def jobs(size: int, count: int) -> dict[str, dict[str, Job]]:
    """Everything measured at one capacity, by owner."""
    shape: dict[str, Any] = {"obs": (OBS,), "action": (ACTION,)}
    made = {
        "uniform": ours(filled(UniformMemory(size, **shape)), count),
        "prioritized": ours(filled(PrioritizedMemory(size, **shape)), count),
        "reservoir": ours(filled(ReservoirMemory(size, **shape)), max(count // 8, 1)),
        "crystal": ours(crystal(size), count),
        "cpprb": cpprb_jobs(size, count),
        "sb3": sb3_jobs(size, count),
    }
    with numba(False):
        made["prioritized_without_numba"] = ours(filled(PrioritizedMemory(size, **shape)), count)
    return made


def measure(made: dict[str, dict[str, Job]], rounds: int, label: str) -> dict[str, list[float]]:
    """Seconds per operation of every job in every round; the order of jobs is the same in each, so rounds compare."""
    seconds: dict[str, list[float]] = {}
    for turn in track(range(rounds + 1), description=label, transient=True):
        for owner, named in made.items():
            for name, job in named.items():
                taken = job()
                if turn:  # the first round warms up
                    seconds.setdefault(f"{owner}_{name}", []).append(taken)
    return seconds


RATIOS = {
    "prioritized_sample_vs_cpprb": ("cpprb_sample_update", "prioritized_sample_update", 1.5),
    "prioritized_sample_vs_cpprb_without_numba": (
        "cpprb_sample_update",
        "prioritized_without_numba_sample_update",
        0.7,
    ),
    "prioritized_add_vs_cpprb": ("cpprb_add", "prioritized_add", 1.5),
    "crystal_sample_vs_cpprb": ("cpprb_sample_update", "crystal_sample_update", 1.5),
    "crystal_add_vs_cpprb": ("cpprb_add", "crystal_add", 1.0),
    "uniform_sample_vs_sb3": ("sb3_sample", "uniform_sample", 2.0),
}


def machine() -> dict[str, Any]:
    return {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "cores": os.cpu_count(),
        "system": platform.platform(terse=True),
    }


def run(quick: bool) -> dict[str, Any]:
    rounds, count = (5, 150) if quick else (15, 400)
    result: dict[str, Any] = {
        "ratios": {},
        "growth": {},
        "seconds": {},
        "bytes_per_experience": {},
        "machine": machine(),
    }
    by_size = {size: measure(jobs(size, count), rounds, f"{size:,} slots") for size in SIZES}
    for size, seconds in by_size.items():
        suffix = "" if size == SIZES[-1] else f"_{size}"
        for name, (peer, mine, _) in RATIOS.items():
            pairs = zip(seconds[peer], seconds[mine], strict=True)
            result["ratios"][name + suffix] = statistics.median(theirs / own for theirs, own in pairs)
        result["seconds"] |= {f"{name}_{size}": statistics.median(values) for name, values in seconds.items()}
    small, large = (by_size[size]["prioritized_sample_update"] for size in SIZES)
    result["growth"]["prioritized_sample"] = statistics.median(large) / statistics.median(small)
    result["bytes_per_experience"] = counted_bytes()
    result["consolidation"] = consolidation.quick() if quick else _consolidation()
    return result


def counted_bytes() -> dict[str, dict[str, float]]:
    """Of full memories. The crystal memory keeps lists: with the recommended parameters, and the default ones, which
    remember returns."""
    shape: dict[str, Any] = {"obs": (OBS,), "action": (ACTION,)}
    plain = {kind.__name__: kind(100_000, **shape) for kind in (UniformMemory, PrioritizedMemory, ReservoirMemory)}
    rows = {name.removesuffix("Memory").lower(): consolidation.bytes_of(memory) for name, memory in plain.items()}
    for name, params in (("crystal", CrystalParams.anchored()), ("crystal, CrystalParams()", CrystalParams())):
        memory = filled(CrystalMemory(100_000, params=params, **shape))
        memory.neighbours.graph = lists = memory.neighbours.empty_graph(memory.arena)
        every = torch.ones(1, 100_000, dtype=torch.bool)
        lists.index.build(every, every[:, 0], partial(lists.states.vectors, "obs"))
        rows[name] = consolidation.bytes_of(memory)
    return rows


def _consolidation() -> dict[str, Any]:
    """Both sizes, and the two numbers that matter; `benchmarks/consolidation.py` has more."""
    parts = {size: consolidation.PARTS[f"speed {size}"]() for size in SIZES}
    small, large = parts.values()
    return {**parts, "consolidation_vs_faiss": large["ratio"], "growth": large["seconds"] / small["seconds"]}


def show(result: dict[str, Any]) -> None:
    console = Console()
    table = Table(title="Our rate ÷ peer's rate, same run", title_justify="left")
    for column in ("ratio", "100,000 slots", "1,000,000 slots", "target"):
        table.add_column(column, justify="left" if column == "ratio" else "right")
    for name, (_, _, target) in RATIOS.items():
        small, large = result["ratios"][f"{name}_{SIZES[0]}"], result["ratios"][name]
        table.add_row(name, f"{small:.2f}", f"{large:.2f}", f"≥ {target:g}")
    table.add_row("growth of prioritized sample time", "", f"{result['growth']['prioritized_sample']:.2f}", "≤ 2.5")
    mended = result["consolidation"]
    if "consolidation_vs_faiss" in mended:
        table.add_row("consolidation: FAISS's time ÷ ours", "", f"{1 / mended['consolidation_vs_faiss']:.1f}", "≥ 20")
    console.print(table)
    times = Table(title="Microseconds per operation (median)", title_justify="left")
    for column in ("operation", *(f"{size:,} slots" for size in SIZES)):
        times.add_column(column, justify="left" if column == "operation" else "right")
    for name in sorted({key.rsplit("_", 1)[0] for key in result["seconds"]}):
        times.add_row(name, *(f"{result['seconds'][f'{name}_{size}'] * 1e6:.1f}" for size in SIZES))
    console.print(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0] if __doc__ else None)
    parser.add_argument("--json", type=Path, help="write the numbers to this file")
    parser.add_argument("--quick", action="store_true", help="fewer rounds: under a minute")
    parser.add_argument("--bytes", action="store_true", help="only count bytes, and keep the other numbers of the file")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.bytes:
        result = json.loads(options.json.read_text()) if options.json else {}
        result["bytes_per_experience"] = counted_bytes()
        print(json.dumps(result["bytes_per_experience"], indent=2))
    else:
        result = run(options.quick)
        show(result)
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
