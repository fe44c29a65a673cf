"""Speed of the memories compared with their peers, in one process, in interleaved rounds; and their size.

Ratios are our rate divided by the peer's rate in the same round (bigger is better); the median over the rounds is
reported. One lane, observation 39, action 4, batch 256, float32.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import cycle, pairwise
from statistics import median
from typing import Any

import numpy as np
import torch

from benchmarks import consolidation, internals, peers
from benchmarks.harness.pages import measured_on, table
from benchmarks.harness.results import Part, Result, Setting, in_parts, machine
from benchmarks.harness.timing import Job, Step, interleaved, medians, ratio
from benchmarks.peers import ACTION, BATCH, CHUNK, OBS, experiences
from crystalrl import CrystalMemory, CrystalParams, PrioritizedMemory, ReservoirMemory, Transition, UniformMemory

SIZES = (100_000, 1_000_000)
SHAPE: dict[str, Any] = {"obs": (OBS,), "action": (ACTION,)}


RATIOS = {
    "prioritized_sample_vs_cpprb": ("cpprb_sample_update", "prioritized_sample_update"),
    "prioritized_sample_vs_cpprb_without_numba": ("cpprb_sample_update", "prioritized_without_numba_sample_update"),
    "prioritized_add_vs_cpprb": ("cpprb_add", "prioritized_add"),
    "crystal_sample_vs_cpprb": ("cpprb_sample_update", "crystal_sample_update"),
    "anchored_sample_vs_cpprb": ("cpprb_sample_update", "anchored_sample_update"),
    "crystal_add_vs_cpprb": ("cpprb_add", "crystal_add"),
    "prioritized_eight_vs_cpprb": ("cpprb_add_eight", "prioritized_eight_add_eight"),
    "crystal_eight_vs_cpprb": ("cpprb_add_eight", "crystal_eight_add_eight"),
    "uniform_sample_vs_sb3": ("sb3_sample", "uniform_sample"),
}
"""The peer's time and ours."""


def filled(memory: Any) -> Any:
    data = experiences(CHUNK)
    for start in range(0, memory.capacity, CHUNK):
        internals.store(memory, {name: column[: memory.capacity - start] for name, column in data.items()})
    return memory


def crystal(size: int, **options: Any) -> CrystalMemory:
    """With the recommended parameters; all three phases are full, as after many consolidations."""
    memory = filled(CrystalMemory(size, params=CrystalParams.anchored(), **SHAPE, **options))
    liquid, glass, _ = memory.params.caps(size)
    phase = torch.ones(size, dtype=torch.uint8)
    phase[liquid:] = 2
    phase[liquid + glass :] = 3
    internals.pretend_evaluated(memory)
    internals.set_phases(memory, phase, torch.ones(size, dtype=torch.bool))
    return memory


def ours(memory: Any) -> dict[str, Step]:
    data, td, number = experiences(1000), torch.rand(BATCH), cycle(range(1000))

    def add() -> None:
        k = next(number)
        memory.add(Transition(data["obs"][k], data["action"][k], float(data["reward"][k]), data["next_obs"][k], False))

    def sample_update() -> None:
        memory.update(memory.sample(BATCH), td)

    return {"add": add, "sample": lambda: memory.sample(BATCH), "sample_update": sample_update}


def eight(memory: Any) -> dict[str, Step]:
    """One step of eight environments."""
    data, number, off = experiences(1000), cycle(range(992)), np.zeros(8, bool)

    def add() -> None:
        some = slice(k := next(number), k + 8)
        obs, next_obs = data["obs"][some], data["next_obs"][some]
        memory.add(Transition(obs, data["action"][some], data["reward"][some], next_obs, off))

    return {"add_eight": add}


def steps(size: int) -> dict[str, dict[str, Step]]:
    """Everything measured at one capacity, by owner."""
    made = {
        "uniform": ours(filled(UniformMemory(size, **SHAPE))),
        "prioritized": ours(filled(PrioritizedMemory(size, **SHAPE))),
        "reservoir": ours(filled(ReservoirMemory(size, **SHAPE))),
        "crystal": ours(crystal(size)),
        "anchored": ours(crystal(size, anchor={"policy": (2 * ACTION,)})),
        "prioritized_eight": eight(filled(PrioritizedMemory(size, envs=8, **SHAPE))),
        "crystal_eight": eight(crystal(size, envs=8)),
        "cpprb": peers.cpprb(size),
        "sb3": peers.stable_baselines3(size),
    }
    with internals.without_numba():
        made["prioritized_without_numba"] = ours(filled(PrioritizedMemory(size, **SHAPE)))
    return made


def timed(size: int, rounds: int, calls: int) -> dict[str, list[float]]:
    """Processor seconds per operation in every round, by owner and operation."""
    jobs = {}
    for owner, named in steps(size).items():
        some = max(calls // 8, 1) if owner == "reservoir" else calls
        jobs |= {
            f"{owner}_{name}": Job(step, 4 * some if name.startswith("add") else some) for name, step in named.items()
        }
    return interleaved(jobs, rounds)


def speed(quick: bool) -> Result:
    times = {size: timed(size, *((5, 150) if quick else (15, 400))) for size in SIZES}
    ratios, taken = {}, {}
    for size, values in times.items():
        suffix = "" if size == SIZES[-1] else f"_{size}"
        ratios |= {name + suffix: ratio(values[peer], values[mine]) for name, (peer, mine) in RATIOS.items()}
        taken |= {f"{name}_{size}": each for name, each in medians(values).items()}
    small, large = (taken[f"prioritized_sample_update_{size}"] for size in SIZES)
    return {"ratios": ratios, "growth": {"prioritized_sample": large / small}, "seconds": taken}


def beyond_caches(quick: bool) -> Result:
    """Seconds of a prioritized draw with gather from 10⁶ and from 10⁷ slots, in turns."""
    sizes = (100_000, 200_000) if quick else (1_000_000, 10_000_000)
    memories = {str(size): filled(PrioritizedMemory(size, **SHAPE)) for size in sizes}
    jobs = {size: Job(lambda memory=memory: memory.sample(BATCH), 50) for size, memory in memories.items()}  # type: ignore[misc]
    times = interleaved(jobs, 5 if quick else 40, time.perf_counter)
    small, large = times.values()
    return {"seconds": medians(times), "growth": ratio(large, small)}


START = """
from time import process_time as now
import numpy, torch
times = [now()]
import crystalrl
from crystalrl import CrystalMemory, Transition
times.append(now())
memory = CrystalMemory(100_000, obs=(39,), action=(4,))
times.append(now())
memory.add(Transition(numpy.zeros(39, "f4"), numpy.zeros(4, "f4"), 0.0, numpy.zeros(39, "f4"), False))
print(*times, now())
"""
"""What a new process does; compiled code is kept from an earlier one."""


def start(quick: bool) -> dict[str, float]:
    """Processor seconds of a new process, after torch is imported; the median of some."""
    runs = []
    for _ in range(2 if quick else 6):
        out = subprocess.run([sys.executable, "-c", START], capture_output=True, text=True, check=True).stdout
        times = [float(word) for word in out.split()]
        runs.append([after - before for before, after in pairwise(times)])
    return dict(zip(("import", "build", "first_add"), map(median, zip(*runs[1:], strict=True)), strict=True))


def profile(quick: bool) -> dict[str, dict[str, float]]:
    """Microseconds of the parts of a sample and an update, processor time, in turns; short rounds, so that few are
    interrupted, and the fastest tenth of them."""
    size, rows = SIZES[0] if quick else SIZES[-1], {}
    kinds = {"prioritized": filled(PrioritizedMemory(size, **SHAPE))}
    kinds["crystal with anchors"] = crystal(size, anchor={"policy": (2 * ACTION,)})
    for name, memory in kinds.items():
        jobs = {part: Job(step, 10) for part, step in internals.sample_parts(memory, BATCH).items()}
        times = interleaved(jobs, 10 if quick else 200)
        rows[name] = {part: sorted(values)[len(values) // 10] * 1e6 for part, values in times.items()}
    return rows


def counted_bytes() -> dict[str, dict[str, float]]:
    """Of full memories. The crystal memory keeps lists: with the recommended parameters, and with the default ones,
    which remember returns."""
    plain = {kind.__name__: kind(100_000, **SHAPE) for kind in (UniformMemory, PrioritizedMemory, ReservoirMemory)}
    rows = {name.removesuffix("Memory").lower(): internals.bytes_by_part(memory) for name, memory in plain.items()}
    for name, params in (("crystal", CrystalParams.anchored()), ("crystal, repaired", CrystalParams.repaired())):
        memory = filled(CrystalMemory(100_000, params=params, **SHAPE))
        internals.build_lists(memory)
        rows[name] = internals.bytes_by_part(memory)
    return rows


def consolidations(quick: bool) -> dict[Any, Any]:
    """Both sizes, and their main figures; the benchmark `consolidation` has more."""
    if quick:
        return consolidation.measured(consolidation.QUICK)
    parts = {size: consolidation.measured(f"speed {size}") for size in SIZES}
    return {**parts, **consolidation.growth(*parts.values())}


def measure(setting: Setting) -> Iterator[Result]:
    parts: dict[str, Part] = {
        "speed": lambda: {**speed(setting.quick), "machine": machine()},
        "start": lambda: {"start": start(setting.quick)},
        "large": lambda: {"large": beyond_caches(setting.quick)},
        "profile": lambda: {"profile": profile(setting.quick)},
        "bytes": lambda: {"bytes_per_experience": counted_bytes()},
        "consolidation": lambda: {"consolidation": consolidations(setting.quick)},
    }
    return in_parts(setting, parts)


LABELS = {
    "prioritized_sample_vs_cpprb": ("prioritized: sample + update, compared with cpprb", 3.0),
    "prioritized_sample_vs_cpprb_without_numba": ("the same without numba", 1.0),
    "prioritized_add_vs_cpprb": ("prioritized: add, compared with cpprb", 1.5),
    "crystal_sample_vs_cpprb": ("crystal: sample + update, compared with cpprb's prioritized", 2.5),
    "anchored_sample_vs_cpprb": ("crystal with anchors: sample + update, compared with cpprb's prioritized", 2.5),
    "crystal_add_vs_cpprb": ("crystal: add, compared with cpprb's prioritized", 1.5),
    "prioritized_eight_vs_cpprb": ("prioritized: add of eight environments, compared with cpprb's batch add", 1.5),
    "crystal_eight_vs_cpprb": ("crystal: add of eight environments, compared with cpprb's batch add", 1.5),
    "uniform_sample_vs_sb3": ("uniform: sample, compared with Stable-Baselines3", 2.0),
}
"""The same ratios, with targets."""


def speed_block(result: Result) -> str:
    ratios, growth = result["ratios"], result["growth"]["prioritized_sample"]
    rows = [
        [label, f"{ratios[f'{name}_{SIZES[0]}']:.2f}", f"{ratios[name]:.2f}", f"≥ {target:g}"]
        for name, (label, target) in LABELS.items()
    ]
    rows.append(["growth of prioritized sample + update, 10⁵ → 10⁶", "", f"{growth:.2f}", "≤ 2.5"])
    if "large" in result:
        row = ["growth of prioritized sample, 10⁶ → 10⁷", "", f"{result['large']['growth']:.2f}", "≤ 1.5"]
        rows.append(row)
    head = ["", "10⁵ slots", "10⁶ slots", "target"]
    return "\n\n".join([table(head, rows), *start_lines(result), measured_on(result["machine"])])


def start_lines(result: Result) -> list[str]:
    if "start" not in result:
        return []
    taken = result["start"]
    return [
        f"A new process takes {taken['import']:.2f} s to import the memory after torch (target: ≤ 0.3 s), "
        f"{taken['build']:.2f} s to build the first one, which loads numba, and {taken['first_add']:.2f} s for the "
        "first `add`, with code that an earlier process has compiled (target: ≤ 0.5 s)."
    ]


def profile_block(result: Result) -> str:
    rows = result["profile"]
    parts = list(dict.fromkeys(part for row in rows.values() for part in row))
    return table(
        ["", *parts], [[name, *(f"{row[p]:.0f}" if p in row else "" for p in parts)] for name, row in rows.items()]
    )


PARTS = ("payload", "ledger", "lists", "vectors")


def bytes_block(result: Result) -> str:
    rows = []
    for name, parts in result["bytes_per_experience"].items():
        listed = parts["ledger"] + parts["lists"]
        sums = [f"{listed:.0f}", f"{listed + parts['vectors']:.0f}"] if name.startswith("crystal") else ["", ""]
        rows.append([name, *(f"{parts[part]:.0f}" for part in PARTS), *sums])
    return table(["memory", *PARTS, "ledger + lists", "ledger + lists + vectors"], rows)
