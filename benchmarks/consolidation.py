"""Consolidation of large memories on CPU: time, memory, and how close the kept lists come to exact neighbours.

A memory starts empty, is fed, and is consolidated with every 5,000 new experiences, so its lists arise as they would in
use. Then come the consolidations that are measured, without the evaluation by the critic. For the times, memories fill
faster, and new experiences are spread over the phases at once: a memory that had to crystallize by itself would take
days to fill. The peer is what one would do without kept lists: build a FAISS index with the parameters that the memory
itself uses, and query it once for every experience. A sample of its queries is timed after each of our consolidations,
so that both meet the same load.
"""

from __future__ import annotations

import resource
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks import internals, peers
from benchmarks.harness.pages import table
from benchmarks.harness.results import Part, Result, Setting, in_parts
from benchmarks.harness.timing import process_and_wall
from benchmarks.internals import Ivf, NeighbourLists
from benchmarks.streams import Rollouts, Walks, meta_world
from crystalrl import Batch, CrystalMemory, CrystalParams

QUERIES, SAMPLE = 1000, 2000


@dataclass(frozen=True)
class Case:
    """A memory that has received as many experiences as it has slots, then the consolidations that count."""

    source: Walks | Rollouts
    slots: int
    turns: int
    """Consolidations that count."""
    filling: int | None = None
    """Experiences at a time while the memory fills, spread over the phases in the first half; then it is timed next to
    its peer. None: as many as later."""
    new: int = 5000
    """Experiences before each consolidation that counts."""


def critic(batch: Batch) -> Tensor:
    assert isinstance(batch.obs, Tensor)
    assert isinstance(batch.next_obs, Tensor)
    return batch.reward + torch.sin(batch.next_obs[..., 0]) - torch.sin(batch.obs[..., 0])


def empty(source: Walks | Rollouts, slots: int) -> CrystalMemory:
    shape: Any = {"obs": (source.obs,), "action": (source.action,), "envs": source.envs, "seed": 0}
    return CrystalMemory(slots, params=CrystalParams.anchored(), **shape)


def filled(case: Case) -> CrystalMemory:
    """Excess of a phase is evicted at once when time begins to pass, and lists need a while to recover: hence the
    second half."""
    memory, at_once = empty(case.source, case.slots), case.filling or case.new
    fills = case.slots // at_once
    for number in range(fills):
        internals.store(memory, case.source.take(at_once))
        if case.filling and number < fills // 2:
            memory.time -= at_once  # no time passes, so that nothing is evicted yet
            spread(memory)
        memory.consolidate(critic)
    return memory


def spread(memory: CrystalMemory) -> None:
    """Put new experiences into random phases, with the shares that a full memory has."""
    shares = torch.tensor(memory.params.caps(memory.capacity), dtype=torch.float64)
    generator = torch.Generator().manual_seed(0)
    drawn = torch.multinomial(shares, memory.capacity, replacement=True, generator=generator) + 1
    new = (memory.ledger.phase[0] == 1) & ~internals.evaluated(memory)
    internals.set_phases(memory, drawn.to(torch.uint8), new)


class Peer:
    """A FAISS index built from scratch, and what querying it for every experience takes: process and wall seconds.

    Vectors are given to FAISS as they are ("peer"), or padded to a multiple of eight coordinates, as the memory itself
    does ("padded_peer").
    """

    def __init__(self, memory: CrystalMemory) -> None:
        own = NeighbourLists(memory)
        slots = own.stored
        vectors = own.vectors("obs", slots).numpy()
        self.count, size = vectors.shape
        lists = int(Ivf.lists_per_root * self.count**0.5)
        step = max(1, self.count // (lists * Ivf.trained_on))
        some = slots[torch.randperm(self.count, generator=torch.Generator().manual_seed(2))[:QUERIES]]
        queries = own.vectors("next_obs", some).numpy()
        self.searches, self.built = {}, {}
        for name, wide in (("peer", size), ("padded_peer", size + -size % Ivf.pad_to)):
            index = peers.faiss_index(wide, lists, Ivf.min_probes)
            rows, asked = (np.pad(each, ((0, 0), (0, wide - size))) for each in (vectors, queries))
            self.built[name] = process_and_wall(partial(_build, index, rows, step))
            self.searches[name] = partial(index.search, asked, 10)
        self.rounds: dict[str, list[tuple[float, float]]] = {name: [] for name in self.searches}

    def ask(self) -> None:
        for name, search in self.searches.items():
            self.rounds[name].append(process_and_wall(search))

    def compared(self, ours: list[float]) -> dict[str, float]:
        """ours: process and wall seconds of a consolidation."""
        result = {}
        for name, mark in (("peer", ""), ("padded_peer", "padded_")):
            asked = (mean(each) / QUERIES * self.count for each in zip(*self.rounds[name], strict=True))
            process, wall = (built + taken for built, taken in zip(self.built[name], asked, strict=True))
            result |= {f"{mark}peer_seconds": process, f"{mark}peer_wall_seconds": wall}
            result |= {f"{mark}ratio": ours[0] / process, f"{mark}wall_ratio": ours[1] / wall}
        return result


def _build(index: Any, rows: Any, step: int) -> None:
    """Train a FAISS index on every step-th row, and fill it."""
    index.train(rows[::step])
    index.add(rows)


def measured(name: str) -> Result:
    case = CASES[name]()
    memory = filled(case)
    peer = Peer(memory) if case.filling else None
    rounds, reports, quality = [], [], {}
    for turn in range(case.turns):
        internals.store(memory, case.source.take(case.new))
        taken, report, quality = consolidated(memory, rate=turn == case.turns - 1)
        rounds.append(taken)
        reports.append(report)
        if peer is not None:
            peer.ask()
    ours = [mean(each) for each in zip(*rounds, strict=True)]
    return {
        "seconds": ours[0], "wall_seconds": ours[1], "worst": max(process for process, _ in rounds),
        "turns": case.turns, "experiences": int((memory.ledger.phase > 0).sum()),
        "stages": {name: mean(report.seconds[name] for report in reports) for name in reports[0].seconds},
        "bytes": (memory.nbytes - memory.arena.nbytes) / case.slots, "parts": internals.bytes_by_part(memory),
        **quality, **(peer.compared(ours) if peer is not None else {}),
    }  # fmt: skip


def consolidated(memory: CrystalMemory, rate: bool) -> tuple[tuple[float, float], Any, dict[str, float]]:
    """Process and wall seconds without the critic; the report; and, if `rate`, how good the lists were."""
    done: list[Any] = []
    planning = process_and_wall(lambda: done.append(internals.plan(memory, critic)))
    quality = list_quality(NeighbourLists(memory)) if rate else {}
    applying = process_and_wall(lambda: done.append(memory.apply(done[0])))
    critics = done[1].seconds["evaluate"]
    return (planning[0] + applying[0] - critics, planning[1] + applying[1] - critics), done[1], quality


def list_quality(lists: NeighbourLists) -> dict[str, float]:
    """Recall@10 of the lists just used, and the mean error of V over its deviation, against exact neighbours."""
    order = torch.randperm(len(lists.stored), generator=torch.Generator().manual_seed(1))
    rows = lists.stored[order[:SAMPLE]]
    exact, listed = nearest(lists, rows), lists.of_successors(rows)[:, :10]
    recall = float((exact[:, :, None] == listed[:, None, :]).any(-1).float().mean())
    value, there = lists.errors[exact].mean(-1), listed >= 0
    approximate = (lists.errors[listed.clamp_min(0)] * there).sum(-1) / there.sum(-1).clamp_min(1)
    return {"recall": recall, "value_error": float((approximate - value).abs().mean() / value.std())}


def nearest(lists: NeighbourLists, rows: Tensor) -> Tensor:
    """Slots int64[P, 10] of the stored states nearest to the successor states of rows [P], themselves excluded."""
    queries = lists.vectors("next_obs", rows)
    distance, slot = torch.empty(len(rows), 0), torch.empty(len(rows), 0, dtype=torch.int64)
    for part in lists.stored.split(1 << 17):
        apart = torch.cdist(queries, lists.vectors("obs", part)).masked_fill_(rows[:, None] == part, torch.inf)
        closest, at = apart.topk(10, largest=False)
        distance, order = torch.cat([distance, closest], 1).topk(10, largest=False)
        slot = torch.cat([slot, part[at]], 1).gather(1, order)
    return slot


def many_adds(slots: int, adds: int) -> Result:
    """Resident memory, in MiB, after a tenth of the adds and after all, with a consolidation every 50,000."""
    source = Walks(0.98)
    memory, block, envs, resident = empty(source, slots), source.take(500 * source.envs), source.envs, {}
    for number in range(1, adds // envs + 1):
        part = slice((number - 1) % 500 * envs, ((number - 1) % 500 + 1) * envs)
        internals.store(memory, {name: values[part] for name, values in block.items()})
        if number % 1000 == 0:
            memory.consolidate(critic)
        if number * envs in (adds // 10, adds):
            pages = int(Path("/proc/self/statm").read_text().split()[1])
            resident[f"{number * envs}"] = pages * resource.getpagesize() / 2**20
    largest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"slots": slots, "resident_mib": resident, "largest_mib": largest}


QUICK = "speed 40000"
CASES: dict[str, Callable[[], Case]] = {
    QUICK: lambda: Case(Walks(0.98), 40_000, 3, filling=20_000),
    "speed 100000": lambda: Case(Walks(0.98), 100_000, 8, filling=25_000),
    "speed 1000000": lambda: Case(Walks(0.98), 1_000_000, 6, filling=50_000),
    "speed 2000000": lambda: Case(Walks(0.98), 2_000_000, 4, filling=100_000),
    "walks, .98": lambda: Case(Walks(0.98), 100_000, 50),
    "walks, .998": lambda: Case(Walks(0.998), 100_000, 50),
    "HalfCheetah-v5": lambda: Case(Rollouts("HalfCheetah-v5"), 100_000, 50),
    "Hopper-v5": lambda: Case(Rollouts("Hopper-v5"), 100_000, 50),
    "Meta-World push-v3": lambda: Case(meta_world("push-v3"), 40_000, 50, new=2000),
    "noise": lambda: Case(Walks(0.0), 100_000, 50),
}


def measure(setting: Setting) -> Iterator[Result]:
    names = [name for name in CASES if (name == QUICK) == setting.quick]
    parts: dict[str, Part] = {name: lambda name=name: {name: measured(name)} for name in names}  # type: ignore[misc]
    parts["adds"] = lambda: {"adds": many_adds(2_000, 10**5) if setting.quick else many_adds(20_000, 10**7)}
    for result in in_parts(setting, parts):
        yield result | growth(result.get("speed 100000"), result.get("speed 1000000"))


def growth(small: dict[str, Any] | None, large: dict[str, Any] | None) -> dict[str, float]:
    """The main figures of two sizes, where both are known."""
    if not (small and large):
        return {}
    return {"consolidation_vs_faiss": large["ratio"], "growth": large["seconds"] / small["seconds"]}


LINES = (
    ("experiences stored", "experiences", ",.0f", ""),
    ("process seconds, mean", "seconds", ".2f", ""),
    ("process seconds, longest", "worst", ".2f", ""),
    ("FAISS: build and one query for each, process seconds", "peer_seconds", ".1f", ""),
    ("ours ÷ FAISS, process time", "ratio", ".3f", "≤ .05 at 10⁶"),
    ("ours ÷ FAISS, wall-clock time", "wall_ratio", ".3f", ""),
    ("ours ÷ FAISS with padded vectors, process time", "padded_ratio", ".3f", ""),
    ("bytes per slot in addition to the payload", "bytes", ".0f", "≤ 256"),
    ("recall@10 of the lists of s′", "recall", ".3f", "≥ .95"),
    ("error of V ÷ its deviation", "value_error", ".3f", ""),
)
"""Label, key, format and target of the rows of the table of speeds."""


def _sizes(result: Result) -> dict[int, dict[str, Any]]:
    return dict(sorted((int(name.split()[1]), row) for name, row in result.items() if name.startswith("speed ")))


def speed_block(result: Result) -> str:
    sizes = _sizes(result)
    rows = [[words, *(format(row[key], how) for row in sizes.values()), target] for words, key, how, target in LINES]
    if "growth" in result:
        rows.append(["growth 10⁵ → 10⁶", "", f"{result['growth']:.1f}", *[""] * (len(sizes) - 2), "≤ 12"])
    return table(["", *(f"{size:,} slots" for size in sizes), "target"], rows)


def stages_block(result: Result) -> str:
    sizes = _sizes(result)
    stages = next(iter(sizes.values()))["stages"]
    rows = [[name, *(f"{row['stages'][name]:.2f}" for row in sizes.values())] for name in stages]
    return table(["stage", *(f"{size:,} slots" for size in sizes)], rows)


def quality_block(result: Result) -> str:
    streams = {name: row for name, row in result.items() if name in CASES and not name.startswith("speed ")}
    rows = [
        [name, f"{row['turns']}", f"{row['recall']:.3f}", f"{row['value_error']:.3f}", f"{row['seconds']:.2f}"]
        for name, row in streams.items()
    ]
    return table(["stream", "consolidations", "recall@10", "error of V ÷ its deviation", "seconds each"], rows)


def resident_block(result: Result) -> str:
    found = result["adds"]
    after = ", ".join(f"{mib:.0f} MiB after {int(adds):,} adds" for adds, mib in found["resident_mib"].items())
    return f"Resident memory of a process with a memory of {found['slots']:,} slots: {after}."
