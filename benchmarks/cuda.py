"""Speed and agreement on one CUDA device.

Times a prioritized sample + update of 256 for 50 lanes of 100,000 slots inside a captured graph, checks that CUDA draws
the slots that the CPU draws from the same uniforms, and runs a crystal memory through consolidations on both. The
profile shows on which operations a consolidation spends its time.
"""

from __future__ import annotations

from collections.abc import Iterator
from statistics import mean, median
from typing import Any

import torch
from torch import Tensor
from torch.profiler import ProfilerActivity, profile

from benchmarks.harness.pages import table
from benchmarks.harness.results import Part, Result, Setting, in_parts
from benchmarks.harness.timing import Job, clock, interleaved, seconds
from benchmarks.internals import SumTree
from benchmarks.plain_sac import perceptron
from crystalrl import Batch, CrystalMemory, CrystalParams, Evaluation, PrioritizedMemory, ReservoirMemory, Transition
from crystalrl.random import Stream, Streams
from crystalrl.study.cuda_graph import BURN_IN, Captured

LANES, SLOTS, BATCH, ENVS = 50, 100_000, 256, 1000


def transition(lanes: int, envs: int, seed: int, made_on: Any, device: Any) -> Transition:
    """Random, from a generator on one device, moved to another."""
    generator = torch.Generator(made_on).manual_seed(seed)
    draw = torch.rand(lanes, envs, 10, generator=generator, device=made_on).to(device)
    return Transition(draw[..., :4], (draw[..., 4] * 3).long(), draw[..., 5], draw[..., 6:], draw[..., 4] < 0.05)


def filled(memory: Any, envs: int) -> Any:
    for start in range(0, memory.capacity, envs):
        memory.add(transition(memory.lanes, envs, start, memory.device, memory.device))
    return memory


def captured(memory: Any, calls: int) -> float:
    """Median seconds of sample + update in a captured graph."""
    td = torch.rand(memory.lanes, BATCH, device="cuda")
    step = Captured(lambda: memory.update(memory.sample(BATCH), td), torch.device("cuda"))
    for _ in range(BURN_IN + 2):
        step()
    taken = interleaved({"step": Job(step, calls)}, 5, clock("cuda"))["step"]
    memory.check()
    return median(taken)


def same_draws() -> float:
    """Share of draws that are the same on CPU and CUDA for the same uniforms and weights, three strata."""
    trees = [SumTree(4, 10_007, 3, device) for device in ("cpu", "cuda")]
    generator = torch.Generator().manual_seed(0)
    weight = torch.rand(4, 10_007, generator=generator) ** 3
    label = torch.randint(0, 3, (4, 10_007), generator=generator, dtype=torch.uint8)
    for tree in trees:
        tree.weight[:, :10_007] = weight.to(tree.device)
        tree.label[:, :10_007] = label.to(tree.device)
        tree.rebuild()
    uniform, same = (Streams([0, 1, 2, 3], device).uniform(Stream.DRAW, 5000).cpu() for device in ("cpu", "cuda"))
    assert torch.equal(uniform, same), "uniforms differ between CPU and CUDA"
    stratum = torch.randint(0, 3, uniform.shape, generator=generator, dtype=torch.uint8)
    here, there = (tree.draw(uniform.to(tree.device), stratum.to(tree.device))[0].cpu() for tree in trees)
    return float((here == there).float().mean())


def delivered() -> bool:
    """Whether batches of a memory on CPU that delivers to CUDA arrive there, equal to those it would keep on CPU."""
    batches = []
    for deliver in ("cpu", "cuda"):
        shape: dict[str, Any] = {"obs": (4,), "action": 3, "lanes": 2, "envs": 10, "deliver": deliver}
        memory = filled(PrioritizedMemory(1000, **shape), 10)
        for _ in range(50):
            batch = memory.sample(BATCH)
            memory.update(batch, batch.reward)
        assert batch.obs.device.type == batch.weight.device.type == deliver, batch.obs.device
        batches.append(batch)
    names = ("obs", "action", "reward", "next_obs", "discount", "weight", "index")
    return all(torch.equal(getattr(batches[0], name), getattr(batches[1], name).cpu()) for name in names)


def critic(batch: Batch) -> Evaluation:
    assert isinstance(batch.obs, Tensor)
    value = batch.obs.sum(-1)
    return Evaluation(batch.reward - value, {"q": torch.stack([value, value * 2, value * 3], -1)})


def crystals(device: str) -> tuple[Tensor, Tensor, float]:
    """c and phases after a stream with consolidations, and seconds per consolidation."""
    shape: dict[str, Any] = {"obs": (4,), "action": 3, "lanes": 4, "envs": 10, "n_step": 2, "seed": 0, "device": device}
    params = CrystalParams.anchored(time_unit=200, epsilon=0.5)
    memory, taken = CrystalMemory(1000, params=params, anchor={"q": (3,)}, **shape), []
    for step in range(1000):
        memory.add(transition(4, 10, step, "cpu", device))
        if step > 5:  # the first n-step windows are still open before
            batch = memory.sample(64)
            memory.update(batch, batch.reward)
        if memory.due:
            taken.append(seconds(lambda: memory.consolidate(critic), clock(device)))
            memory.check()
    return memory.ledger.c.cpu(), memory.ledger.phase.cpu(), mean(taken)


def agreement() -> dict[str, float]:
    here, there = crystals("cpu"), crystals("cuda")
    return {
        "crystal_largest_difference_of_c": float((here[0] - there[0]).abs().max()),
        "crystal_same_phase": float((here[1] == there[1]).float().mean()),
        "consolidation_seconds_cuda_1000x4": there[2],
    }


class Walk:
    """A memory of many slots, filled by 1,000 walks in 39 dimensions, and a 3 × 256 twin critic."""

    def __init__(self, slots: int, device: str = "cuda") -> None:
        shape: dict[str, Any] = {"obs": (39,), "action": (4,), "device": device, "envs": ENVS, "seed": 0}
        self.memory = CrystalMemory(slots, params=CrystalParams.anchored(), anchor={"q": (2,)}, **shape)
        self.critics = [perceptron(43, 1).to(device) for _ in range(2)]
        self.state = torch.randn(ENVS, 39, device=device)
        self.feed(slots)
        self.consolidate()  # builds the lists

    def consolidate(self) -> Any:
        return self.memory.consolidate(self.evaluate)

    @torch.no_grad()
    def evaluate(self, batch: Any) -> Evaluation:
        here, there = (torch.cat([obs, batch.action], -1) for obs in (batch.obs, batch.next_obs))
        q, next_q = (torch.cat([critic(x) for critic in self.critics], -1) for x in (here, there))
        target = batch.reward + 0.99 * next_q.amin(-1)
        return Evaluation((q - target[:, None]).abs().mean(-1), {"q": q})

    def feed(self, count: int) -> None:
        for _ in range(count // ENVS):
            state = self.state
            self.state = 0.98 * state + 0.2 * torch.randn_like(state)
            action = torch.rand(ENVS, 4, device=state.device)
            ended = torch.zeros(ENVS, dtype=torch.bool, device=state.device)
            self.memory.add(Transition(state, action, torch.sin(self.state[:, 0]), self.state, ended))


def consolidation(slots: int, turns: int = 8) -> dict[str, float]:
    """Mean seconds of a consolidation after 5,000 new experiences, with a 3 × 256 twin critic; by stage."""
    walk, rows = Walk(slots), []
    for _ in range(turns):
        walk.feed(5000)
        reports: list[Any] = []
        whole = seconds(lambda: reports.append(walk.consolidate()), clock("cuda"))  # noqa: B023 (called at once)
        rows.append({**reports[0].seconds, "whole": whole})
    return {name: mean(row[name] for row in rows) for name in rows[0]}


def measure(setting: Setting) -> Iterator[Result]:
    lanes, slots, calls, sizes = (
        (2, 10_000, 5, (20_000,)) if setting.quick else (LANES, SLOTS, 200, (SLOTS, 10 * SLOTS))
    )
    shape: dict[str, Any] = {"obs": (4,), "action": 3, "device": "cuda", "lanes": lanes, "envs": ENVS}
    crystal: dict[str, Any] = {"params": CrystalParams.anchored(), "anchor": {"q": (3,)}}
    memories = {
        "prioritized": (PrioritizedMemory, {}),
        "reservoir": (ReservoirMemory, {}),
        "crystal": (CrystalMemory, crystal),
    }
    origin = {"device": torch.cuda.get_device_name(), "torch": torch.__version__}
    parts: dict[str, Part] = {
        "draws": lambda: {**origin, "same_draws": same_draws(), "delivered_from_cpu": delivered()},
        "updates": lambda: {
            f"{name}_sample_update_seconds": captured(filled(kind(slots, **shape, **options), ENVS), calls)
            for name, (kind, options) in memories.items()
        },
        "agreement": agreement,
        "consolidation": lambda: {f"consolidation_seconds_{size}": consolidation(size) for size in sizes},
    }
    return in_parts(setting, parts)


def block(result: Result) -> str:
    labels = {"prioritized": "prioritized", "reservoir": "reservoir", "crystal": "crystal, with anchors"}
    rows = [[label, f"{result[f'{name}_sample_update_seconds'] * 1e3:.3f} ms"] for name, label in labels.items()]
    agree = (
        f"For the same uniforms, {result['same_draws']:.1%} of the draws are the same as on CPU. After a stream with "
        f"consolidations, phases agree for {result['crystal_same_phase']:.1%} of the experiences and c differs by at "
        f"most {result['crystal_largest_difference_of_c']:.1e}."
    )
    measured = f"Measured on: {result['device']}, torch {result['torch']}."
    return "\n\n".join(
        [table(["sample + update of 256, 50 lanes × 10⁵ slots, captured graph", "time"], rows), agree, measured]
    )


def measure_profile(setting: Setting) -> Iterator[Result]:
    """Print the operations on which a consolidation spends its time, most expensive first."""
    on_cuda = setting.device == "cuda"
    walk = Walk(20_000 if setting.quick else 1_000_000, setting.device)
    for _ in range(3):
        walk.feed(5000)
        walk.consolidate()
    walk.feed(5000)
    kinds = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if on_cuda else [])]
    with profile(activities=kinds, record_shapes=True) as seen:
        report = walk.consolidate()
    order = "self_device_time_total" if on_cuda else "self_cpu_time_total"
    averages = seen.key_averages(group_by_input_shape=True)
    print(averages.table(sort_by=order, row_limit=40, max_name_column_width=40, max_shapes_column_width=60))
    yield {"seconds under the profiler, by stage": report.seconds}
