"""Speed and agreement on one CUDA device.

    python benchmarks/cuda.py [--json FILE] [--profile SLOTS]

Times a prioritized sample + update of 256 for 50 lanes of 100,000 slots inside a captured graph, checks that CUDA draws
the slots that the CPU draws from the same uniforms, and runs a crystal memory through consolidations on both. With
--profile it prints instead which operations a consolidation of so many slots spends its time on, stage by stage.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import torch

from crystalrl import CrystalMemory, CrystalParams, Evaluation, PrioritizedMemory, ReservoirMemory, Transition
from crystalrl.memory.crystal.consolidate import _evaluate as evaluated
from crystalrl.memory.sampling.sum_tree import WeightTree
from crystalrl.random import Stream, Streams

LANES, SLOTS, BATCH = 50, 100_000, 256


def filled(memory: Any, envs: int) -> Any:
    """Fill a memory with random experiences through `add`, all lanes and environments at once."""
    shape = (memory.lanes, envs)
    for start in range(0, memory.capacity, envs):
        generator = torch.Generator(memory.device).manual_seed(start)
        draw = torch.rand(*shape, 10, generator=generator, device=memory.device)
        memory.add(
            Transition(draw[..., :4], (draw[..., 4] * 3).long(), draw[..., 5], draw[..., 6:], draw[..., 4] < 0.05)
        )
    return memory


def captured(memory: Any) -> float:
    """Seconds of sample + update in a captured graph."""
    td = torch.rand(memory.lanes, BATCH, device="cuda")

    def work() -> None:
        memory.update(memory.sample(BATCH).index, td)

    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(3):
            work()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()
    for _ in range(20):
        graph.replay()
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    for _ in range(200):
        graph.replay()
    end.record()
    torch.cuda.synchronize()
    memory.check()
    return begin.elapsed_time(end) / 200 / 1000


def agreement() -> float:
    """Share of draws that are the same on CPU and CUDA for the same uniforms and weights, three strata."""
    trees = [WeightTree(4, 10_007, 3, device) for device in ("cpu", "cuda")]
    generator = torch.Generator().manual_seed(0)
    weight = torch.rand(4, 10_007, generator=generator) ** 3
    label = torch.randint(0, 3, (4, 10_007), generator=generator, dtype=torch.uint8)
    for tree in trees:
        tree.weight[:, :10_007] = weight.to(tree.device)
        tree.label[:, :10_007] = label.to(tree.device)
        tree.rebuild()
    uniform = Streams([0, 1, 2, 3]).uniform(Stream.DRAW, 5000)
    same = Streams([0, 1, 2, 3], "cuda").uniform(Stream.DRAW, 5000).cpu()
    assert torch.equal(uniform, same), "uniforms differ between CPU and CUDA"
    stratum = torch.randint(0, 3, uniform.shape, generator=generator, dtype=torch.uint8)
    slots = [tree.draw(uniform.to(tree.device), stratum.to(tree.device))[0].cpu() for tree in trees]
    return float((slots[0] == slots[1]).float().mean())


def delivered() -> bool:
    """Whether batches of a memory on CPU that delivers to CUDA arrive there, equal to those it would keep on CPU."""
    batches = []
    for deliver in ("cpu", "cuda"):
        shape: dict[str, Any] = {"obs": (4,), "action": 3, "lanes": 2, "envs": 10, "deliver": deliver}
        memory = filled(PrioritizedMemory(1000, **shape), 10)
        for _ in range(50):
            batch = memory.sample(BATCH)
            memory.update(batch.index, batch.reward)
        assert batch.obs.device.type == batch.weight.device.type == deliver, batch.obs.device
        batches.append(batch)
    names = ("obs", "action", "reward", "next_obs", "discount", "weight", "index")
    return all(torch.equal(getattr(batches[0], name), getattr(batches[1], name).cpu()) for name in names)


def critic(batch: Any) -> Evaluation:
    value = batch.obs.sum(-1)
    return Evaluation(batch.reward - value, {"q": torch.stack([value, value * 2, value * 3], -1)})


def crystals(device: str) -> tuple[torch.Tensor, torch.Tensor, float]:
    """c and phases after a stream with consolidations, and seconds per consolidation."""
    params = CrystalParams.anchored(time_unit=200, epsilon=0.5)
    memory = CrystalMemory(
        1000, obs=(4,), action=3, params=params, anchor={"q": (3,)}, lanes=4, envs=10, n_step=2, seed=0, device=device
    )
    taken, turns = 0.0, 0
    for step in range(1000):
        generator = torch.Generator().manual_seed(step)
        draw = torch.rand(4, 10, 10, generator=generator).to(device)
        memory.add(
            Transition(draw[..., :4], (draw[..., 4] * 3).long(), draw[..., 5], draw[..., 6:], draw[..., 4] < 0.05)
        )
        if step > 5:  # the first windows are still open before
            batch = memory.sample(64)
            memory.update(batch.index, batch.reward)
        if memory.due:
            begin = time.perf_counter()
            memory.consolidate(critic)
            taken, turns = taken + time.perf_counter() - begin, turns + 1
            memory.check()
    return memory.ledger.c.cpu(), memory.ledger.phase.cpu(), taken / turns


class Walk:
    """A memory of many slots, filled by 1,000 walks in 39 dimensions, and a 3×256 twin critic."""

    def __init__(self, slots: int, device: str = "cuda") -> None:
        shape: dict[str, Any] = {"obs": (39,), "action": (4,), "device": device, "envs": 1000, "seed": 0}
        self.memory = CrystalMemory(slots, params=CrystalParams.anchored(), anchor={"q": (2,)}, **shape)
        self.critics = [
            torch.nn.Sequential(
                torch.nn.Linear(43, 256), torch.nn.ReLU(), torch.nn.Linear(256, 256), torch.nn.ReLU(),
                torch.nn.Linear(256, 256), torch.nn.ReLU(), torch.nn.Linear(256, 1),
            ).to(device)
            for _ in range(2)
        ]  # fmt: skip
        self.state = torch.randn(1000, 39, device=device)
        self.feed(slots)
        self.memory.consolidate(self.evaluate)  # builds the lists

    def evaluate(self, batch: Any) -> Evaluation:
        here, there = (torch.cat([obs, batch.action], -1) for obs in (batch.obs, batch.next_obs))
        with torch.no_grad():
            q, following = (torch.cat([critic(x) for critic in self.critics], -1) for x in (here, there))
        target = batch.reward + 0.99 * following.amin(-1)
        return Evaluation((q - target[:, None]).abs().mean(-1), {"q": q})

    def feed(self, count: int) -> None:
        state = self.state
        for _ in range(count // 1000):
            following = 0.98 * state + 0.2 * torch.randn_like(state)
            action = torch.rand(1000, 4, device=state.device)
            ended = torch.zeros(1000, dtype=torch.bool, device=state.device)
            self.memory.add(Transition(state, action, torch.sin(following[:, 0]), following, ended))
            state = following
        self.state = state


def consolidation(slots: int, turns: int = 8) -> dict[str, float]:
    """Mean seconds of a consolidation after 5,000 new experiences, with a 3×256 twin critic; by stage."""
    walk = Walk(slots)
    seconds: dict[str, float] = {}
    for _ in range(turns):
        walk.feed(5000)
        torch.cuda.synchronize()
        begin = time.perf_counter()
        report = walk.memory.consolidate(walk.evaluate)
        torch.cuda.synchronize()
        taken = {**report.seconds, "whole": time.perf_counter() - begin}
        seconds = {name: seconds.get(name, 0.0) + value / turns for name, value in taken.items()}
    return seconds


def profiled(slots: int, device: str = "cuda") -> None:
    """Print the operations on which the stages of a consolidation spend their time, dearest first."""
    from torch.profiler import ProfilerActivity, profile

    walk = Walk(slots, device)
    for _ in range(3):
        walk.feed(5000)
        walk.memory.consolidate(walk.evaluate)
    walk.feed(5000)
    memory, draft = walk.memory, walk.memory.draft()
    stages: dict[str, Any] = {
        "evaluate": lambda: evaluated(memory, draft, walk.evaluate),
        "neighbours": lambda: memory.neighbours.refresh(draft.view()),
        "all (neighbours for the second time)": lambda: memory.consolidate(walk.evaluate),
    }
    on_cuda = device == "cuda"
    wait: Any = torch.cuda.synchronize if on_cuda else lambda: None
    kinds = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if on_cuda else [])]
    for name, stage in stages.items():
        wait()
        begin = time.perf_counter()
        with profile(activities=kinds, record_shapes=True) as seen:
            stage()
            wait()
        print(f"\n{name}: {time.perf_counter() - begin:.3f} s under the profiler")
        order = "self_device_time_total" if on_cuda else "self_cpu_time_total"
        averages = seen.key_averages(group_by_input_shape=True)
        print(averages.table(sort_by=order, row_limit=15, max_name_column_width=40, max_shapes_column_width=60))
        waiting = ("cudaStreamSynchronize", "cudaDeviceSynchronize", "aten::item", "aten::nonzero")
        waits = {row.key: row.count for row in seen.key_averages() if row.key in waiting}
        print(f"waits for the device: {waits}")


def main() -> None:
    parser = argparse.ArgumentParser(description="Speed and agreement on one CUDA device.")
    parser.add_argument("--json", type=Path, help="write the numbers to this file")
    parser.add_argument("--profile", type=int, metavar="SLOTS", help="print where the time of a consolidation goes")
    options = parser.parse_args()
    if options.profile:
        profiled(options.profile)
        return
    shape: dict[str, Any] = {"obs": (4,), "action": 3, "device": "cuda", "lanes": LANES, "envs": 1000}
    result: dict[str, Any] = {"device": torch.cuda.get_device_name(), "torch": torch.__version__}
    result["same_draws"] = agreement()
    result["delivered_from_cpu"] = delivered()
    result["prioritized_sample_update_seconds"] = captured(filled(PrioritizedMemory(SLOTS, **shape), 1000))
    result["reservoir_sample_update_seconds"] = captured(filled(ReservoirMemory(SLOTS, **shape), 1000))
    anchor = {"q": (3,)}
    crystal = CrystalMemory(SLOTS, params=CrystalParams.anchored(), anchor=anchor, **shape)
    result["crystal_sample_update_seconds"] = captured(filled(crystal, 1000))
    here, there = crystals("cpu"), crystals("cuda")
    result["crystal_largest_difference_of_c"] = float((here[0] - there[0]).abs().max())
    result["crystal_same_phase"] = float((here[1] == there[1]).float().mean())
    result["consolidation_seconds_cuda_1000x4"] = there[2]
    for slots in (100_000, 1_000_000):
        result[f"consolidation_seconds_{slots}"] = consolidation(slots)
    print(json.dumps(result, indent=2))
    if options.json:
        options.json.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
