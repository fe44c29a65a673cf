"""What one checkout computes, as hashes: run by `compare_trees.py`, once per checkout and backend.

    PYTHONPATH=CHECKOUT/src python tools/tree_probe.py run BACKEND FOLDER [--quick]
    PYTHONPATH=CHECKOUT/src python tools/tree_probe.py resume BACKEND FOLDER [--quick]

`run` feeds memories of every kind, hashes all that can be observed, and saves each memory halfway to FOLDER. `resume`
goes on from the files in FOLDER, which another checkout may have saved. Both print JSON: case → what → hash. Only the
public API is used, except in `lists_kept`, `torch_only` and `background`, which also work with older checkouts.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
import warnings
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from tree_cases import Case, Step, build, cases, walk
from tree_hashes import Hashes, batch_parts, file_parts, report_parts

LISTS_FROM = 16
"""Memories of the cases with neighbour lists keep them from this number of slots on."""
ENVIRONMENT = {
    "numba": {"CRYSTALRL_BACKEND": "numba"},
    "numpy": {"CRYSTALRL_BACKEND": "numpy", "CRYSTALRL_NUMBA": "0"},
    "torch": {"CRYSTALRL_BACKEND": "torch"},
    "triton": {"CRYSTALRL_BACKEND": "triton", "CRYSTALRL_TRITON": "cpu", "TRITON_INTERPRET": "1"},
    "cuda": {"PROBE_DEVICE": "cuda"},
}
"""Variables that select each backend, in older checkouts, too. On CUDA it is compiled Triton."""


class Critic:
    """A critic that drifts from step to step. Every batch that it is asked about is hashed."""

    def __init__(self, hashes: Hashes, step: int = 0) -> None:
        self.hashes, self.step = hashes, step

    def td_error(self, batch: Any) -> Any:
        return batch.reward + batch.discount * self.value(batch.next_obs) - self.value(batch.obs)

    def value(self, obs: Any) -> Any:
        place = obs["where"] if isinstance(obs, dict) else obs
        return (3 + 0.002 * self.step) * place[..., 0] - place[..., 1]

    def __call__(self, batch: Any) -> Any:
        import torch

        from crystalrl import Evaluation

        self.hashes.add("evaluated batches", batch_parts(batch))
        value = self.value(batch.obs)
        return Evaluation(self.td_error(batch), {"q": torch.stack([value, -value], -1), "pi": value * value})


def live(memory: Any, case: Case, steps: range, walked: Iterator[Step], hashes: Hashes) -> dict[str, float]:
    """Use the memory for some steps; returns sums over the reports of its consolidations, which show that they had an
    effect."""
    critic, sums = Critic(hashes), {"consolidations": 0.0}
    planner = background(memory, critic) if case.background else None
    for step in steps:
        critic.step = step
        now = next(walked)
        hashes.add("slots", {"added": add(memory, case, now, step)})
        if now.ended.any():
            ended = memory.end_episode(now.ended, episode_return=now.episode_return)
            hashes.add("slots", {"ended": ended})
        if step >= 12:
            batch = memory.sample(16)
            hashes.add("batches", batch_parts(batch))
            memory.update(batch, critic.td_error(batch))
            if case.crystal and step % 100 in (40, 90):
                memory.pin(batch.index[..., :2], pinned=step % 100 == 40)
        if planner is not None:
            note_report(planner.finish() if step == steps[-1] else planner.step(), hashes, sums)
        elif memory.due or (not case.crystal and step % 100 == 50):
            note_report(memory.consolidate(critic), hashes, sums)
        if step % 20 == 19:
            hashes.mark(step + 1)
    return sums


def note_report(report: Any, hashes: Hashes, sums: dict[str, float]) -> None:
    hashes.add("reports", report_parts(report))
    for name, value in (report.values if report else {}).items():
        sums[name] = sums.get(name, 0.0) + float(value.nansum())
    sums["consolidations"] += report is not None


def background(memory: Any, critic: Critic) -> Any:
    """Consolidations that are planned in a thread and applied 7 steps later; its module has moved."""
    for name in ("crystalrl.memory.crystal.background", "crystalrl.memory.background"):
        try:
            module = import_module(name)
        except ModuleNotFoundError:
            continue
        return module.Background(memory, lambda: Critic(Hashes(), critic.step), lag=7)
    raise RuntimeError("background: wanted a module with Background, found none")


def add(memory: Any, case: Case, now: Step, step: int) -> Any:
    """Store one step; sometimes an environment has none, or a demonstration starts with a high c."""
    options: dict[str, Any] = {}
    if case.lead and step % 23 == 7:
        valid = now.ended | True
        valid[..., 0] = False
        options["valid"] = valid
    if case.crystal and step % 53 == 30:
        options["crystallization"] = 0.8
    return memory.add(now.transition, **options)


def describe(memory: Any, case: Case, hashes: Hashes, folder: Path, when: str) -> bytes:
    """Hash the memory's whole state and its file, which is left in the folder; the file's bytes."""
    state = memory.state_dict()
    if case.lists and not any(name.startswith("vicinity.") for name in state):
        raise RuntimeError("wanted a memory that keeps neighbour lists, got one without")
    hashes.note(f"state {when},", state)
    path = folder / f"{case.name}.safetensors"
    memory.save(path)
    content = path.read_bytes()
    hashes.note(when, {**file_parts(content), "len": len(memory), "nbytes": memory.nbytes})
    return content


def probe(case: Case, folder: Path) -> tuple[dict[str, str], dict[str, float]]:
    """Use a memory, saved and loaded halfway; hashes, and sums of what was reported."""
    from crystalrl import load_memory

    hashes, half = Hashes(), case.steps // 2
    with lists_kept(case):
        memory, walked = build(case), walk(case, 1)
        sums = live(memory, case, range(half), walked, hashes)
        content = describe(memory, case, hashes, folder, "halfway")
        path = folder / f"{case.name}.safetensors"
        if case.lanes is None and "PROBE_DEVICE" not in os.environ:  # it loads to the CPU
            memory = load_memory(path)
        else:
            memory = build(case)
            memory.load(path)
        more = live(memory, case, range(half, case.steps), walked, hashes)
        describe(memory, case, hashes, folder, "at the end")
        if case.crystal:
            found = {f"{phase} {name}": value for phase in ("liquid", "crystal")
                     for name, value in flat(memory.experiences(phase)).items()}  # fmt: skip
            hashes.note("experiences", found)
        memory.check()
        memory.clear()
        hashes.note("state after clear,", memory.state_dict())
    path.write_bytes(content)
    return hashes.marks, {name: sums.get(name, 0.0) + value for name, value in more.items()}


def resume(case: Case, folder: Path) -> tuple[dict[str, str], dict[str, float]]:
    """Go on for 100 steps from the file that was saved halfway."""
    from crystalrl import load_memory

    hashes, half = Hashes(), case.steps // 2
    path = folder / f"{case.name}.safetensors"
    content = path.read_bytes()
    with lists_kept(case):
        memory = load_memory(path)
        sums = live(memory, case, range(half, half + 100), walk(case, 2), hashes)
        describe(memory, case, hashes, folder, "at the end")
    path.write_bytes(content)
    return hashes.marks, sums


def flat(parts: Mapping[str, Any]) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for name, value in parts.items():
        out |= {f"{name}.{key}": v for key, v in value.items()} if isinstance(value, dict) else {name: value}
    return out


class lists_kept:
    """Memories used inside keep neighbour lists, if the case says so.

    The number of slots from which lists are kept is `CrystalMemory.exact_up_to`; in older checkouts it was a constant
    of the module that defines `CrystalMemory`.
    """

    def __init__(self, case: Case) -> None:
        from crystalrl import CrystalMemory

        self.case = case
        modern = hasattr(CrystalMemory, "exact_up_to")
        self.home: Any = CrystalMemory if modern else sys.modules[CrystalMemory.__module__]
        self.name = "exact_up_to" if modern else "EXACT"
        self.before = getattr(self.home, self.name)

    def __enter__(self) -> None:
        if self.case.lists:
            setattr(self.home, self.name, dict.fromkeys(self.before, LISTS_FROM))

    def __exit__(self, *error: object) -> None:
        setattr(self.home, self.name, self.before)


def torch_only() -> None:
    """Older checkouts have no variable that selects torch: there the function that finds the loops must find none."""
    for name in ("crystalrl.kernels", "crystalrl.backends"):
        try:
            module = import_module(name)
        except ModuleNotFoundError:
            continue
        if hasattr(module, "of"):
            module.of = lambda device: None  # type: ignore[attr-defined]


def refuse_other_backend(backend: str) -> None:
    """Raise if what was loaded shows that another backend was at work."""
    if backend != "cuda" and ("numba" in sys.modules) != (backend == "numba"):
        raise RuntimeError(f"backend: wanted {backend}, but numba was {'' if backend != 'numba' else 'not '}loaded")
    if backend in ("triton", "cuda") and "triton" not in sys.modules:
        raise RuntimeError("backend: wanted triton, but it was not loaded")


def main() -> None:
    what, backend, folder, *flags = sys.argv[1:]
    import torch

    torch.set_num_threads(1)
    if backend == "torch":
        torch_only()
    import crystalrl

    work = {"run": probe, "resume": resume}[what]
    found: dict[str, Any] = {"": {"checkout": str(Path(crystalrl.__file__).parents[2])}}
    for case in cases(backend, "--quick" in flags):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            try:
                found[case.name], sums = work(case, Path(folder))
            except Exception as error:
                found[case.name], sums = {"error": f"{type(error).__name__}: {error}"}, {}
                traceback.print_exc()
        if os.environ.get("PROBE_SUMS"):
            print(case.name, {name: round(value, 2) for name, value in sums.items()}, file=sys.stderr)
    refuse_other_backend(backend)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
