"""What one checkout computes, as hashes: run by `compare_trees.py`, once per checkout and backend.

    PYTHONPATH=CHECKOUT/src python tools/tree_probe.py run BACKEND FOLDER [--quick]
    PYTHONPATH=CHECKOUT/src python tools/tree_probe.py resume BACKEND FOLDER [--quick]

`run` feeds memories of every kind, hashes all that can be observed, and saves each memory halfway to FOLDER. `resume`
goes on from the files in FOLDER, which another checkout may have saved. Both print JSON: case → what → hash.
Only the public API is used; the two exceptions are `keep_lists_from` and `torch_only`.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import traceback
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import Any

LISTS_FROM = 16
"""Memories of the cases with neighbour lists keep them from this number of slots on."""
ENVIRONMENT = {
    "numba": {},
    "numpy": {"CRYSTALRL_NUMBA": "0"},
    "torch": {"CRYSTALRL_BACKEND": "torch"},
    "triton": {"CRYSTALRL_TRITON": "cpu", "TRITON_INTERPRET": "1"},
}
"""Variables that select each backend."""
ROLES = {"terminated": 0.02, "truncated": 0.02}


@dataclass(frozen=True)
class Case:
    """One memory and how it is used."""

    kind: str
    """uniform, prioritized, reservoir, or a crystal memory: default, paper, anchored."""
    lanes: int | None = None
    slots: int = 64
    lists: bool = False
    """Whether neighbour lists are kept."""
    envs: int = 1
    n_step: int = 1
    box: bool = False
    dict_obs: bool = False
    steps: int = 500
    consolidations: int = 12
    options: Mapping[str, Any] = field(default_factory=dict)
    """Changed parameters."""
    label: str = ""

    @property
    def name(self) -> str:
        shape = f"{self.lanes or 1} lane{'s' * bool(self.lanes)}, N={self.slots}{', lists' * self.lists}"
        return f"{self.kind}{' ' * bool(self.label)}{self.label}, {shape}"

    @property
    def crystal(self) -> bool:
        return self.kind in ("default", "paper", "anchored")

    @property
    def lead(self) -> tuple[int, ...]:
        """Leading shape of what the memory is given."""
        if self.lanes is not None:
            return (self.lanes, self.envs)
        return () if self.envs == 1 else (self.envs,)


def cases(backend: str, quick: bool) -> list[Case]:
    """Every kind × lanes × size; with numba and torch also unusual options."""
    if backend == "triton":
        return interpreted(quick)
    kinds = ("uniform", "prioritized", "reservoir", "default", "paper", "anchored")
    found = []
    for kind in kinds:
        crystal = kind in ("default", "paper", "anchored")
        found += [
            Case(kind),
            Case(kind, lanes=3, box=True, n_step=3, label="box n-step"),
            Case(kind, slots=600, lists=crystal, envs=4),
            Case(kind, lanes=3, slots=600, lists=crystal, envs=2, n_step=3 if kind == "default" else 1),
        ]
    if backend in ("numba", "torch") and not quick:
        found += unusual()
    return [replace(case, steps=120) for case in found if quickly(case, backend)] if quick else found


def quickly(case: Case, backend: str) -> bool:
    """Whether a case remains when time is short: one lane if small, three if large."""
    some = backend == "numba" or case.kind in ("prioritized", "anchored")
    return some and (case.lanes is None) == (case.slots == 64)


def interpreted(quick: bool) -> list[Case]:
    """Interpreted kernels are slow, a consolidation takes seconds: few slots, few steps."""
    small: dict[str, Any] = {"slots": 32, "envs": 4, "steps": 24, "consolidations": 2}
    found = [Case("prioritized", lanes=2, **small)]
    if not quick:
        found += [Case("uniform", **small), Case("reservoir", **small), Case("anchored", lanes=2, lists=True, **small)]
        found += [Case("default", **small), Case("paper", **small, options={"every_episode": False})]
    return found


def unusual() -> list[Case]:
    rates = {"alpha": (0.1, 0.3, 0.6), "gate": (1.0, 2.0, 3.0), "kappa": (0.1, 0.2, 0.3)}
    return [
        Case("uniform", dict_obs=True, label="dict"),
        Case("anchored", dict_obs=True, slots=128, label="dict"),
        Case("prioritized", lanes=3, options={"is_steps": 300, "beta": (0.2, 0.4, 0.6)}, label="annealed"),
        Case("reservoir", options={"recent": 0.0}, envs=3, label="pure"),
        Case("anchored", lanes=3, options=rates, label="rates per lane"),
        Case("anchored", slots=300, options={"slices": 3, "warm": True, "sweeps": 2}, label="slices, warm"),
        Case("anchored", slots=300, options={"novelty": "knn", "kappa": {"q": 0.1, "pi": 0.0}}, label="knn"),
        Case("anchored", slots=600, lists=True, envs=4, options={"slices": 3, "warm": True}, label="slices"),
        Case("anchored", slots=3000, lists=True, envs=16, box=True, label="many"),
        Case("default", slots=300, options={"interference": "exists", "backup": 0.5}, label="exists"),
        Case("default", slots=600, lists=True, envs=4, options={"interference": "exists"}, label="exists"),
        Case("default", lanes=3, options={"interference": "none", "downstream": "random"}, label="no rule"),
        Case("default", lanes=3, envs=2, options={"phases": False, "is_steps": 500, "tau_evict": 2}, label="no phases"),
        Case("default", envs=2, options={"epsilon": 0.1, "delta_r": 0.5, "leak": 0.01, "tau_evict": 2}, label="fixed"),
        Case("paper", lanes=3, slots=600, lists=True, envs=2, options={"interference": "newer_majority"}, label="rule"),
    ]


def params_of(case: Case) -> Any:
    """Parameters with which every phase is entered and left."""
    from crystalrl import CrystalParams

    every = max(1, case.steps * case.envs // case.consolidations)
    pace = {"every": every, "time_unit": max(1, every // 4), "k": 10 if case.lists else 3}
    if case.kind == "paper":
        return CrystalParams.paper(**{"alpha": 0.4, **pace, **case.options})
    if case.kind == "anchored":
        return CrystalParams.anchored(**{**pace, **case.options})
    return CrystalParams(**{"alpha": 0.2, "beta": 0.2, **pace, **case.options})


def build(case: Case) -> Any:
    """The memory of a case."""
    import crystalrl
    import torch

    storage: dict[str, Any] = {
        "obs": {"where": (2,), "door": ()} if case.dict_obs else (2,),
        "obs_dtype": {"where": torch.float32, "door": torch.bool} if case.dict_obs else torch.float32,
        "action": (2,) if case.box else 4,
        "lanes": case.lanes,
        "envs": case.envs,
        "n_step": case.n_step,
        "gamma": 0.97,
        "context": True,
        "seed": 7,
    }
    if case.crystal:
        anchor = {"q": (2,), "pi": ()} if case.kind == "anchored" else None
        return crystalrl.CrystalMemory(case.slots, params=params_of(case), anchor=anchor, **storage)
    kind = {
        "uniform": crystalrl.UniformMemory,
        "prioritized": crystalrl.PrioritizedMemory,
        "reservoir": crystalrl.ReservoirMemory,
    }[case.kind]
    return kind(case.slots, **case.options, **storage)


@dataclass
class Step:
    """A transition, which environments' episodes ended with it, and what they returned."""

    transition: Any
    ended: Any
    episode_return: Any


def walk(case: Case, seed: int) -> Iterator[Step]:
    """Walks in a square; in turn either half of it is rewarded, so that experiences contradict each other."""
    import numpy as np
    from crystalrl import Transition

    rng, lead = np.random.default_rng(seed), case.lead
    moves = np.array([[0.05, 0], [-0.05, 0], [0, 0.05], [0, -0.05]])
    state = rng.uniform(size=(*lead, 2)).astype(np.float32)
    total, turning = np.zeros(lead), case.slots // (3 * case.envs)
    for step in range(10**9):
        action = rng.uniform(-1, 1, (*lead, 2)).astype(np.float32) if case.box else rng.integers(0, 4, lead)
        move = 0.05 * action if case.box else moves[action]
        after = np.clip(state + move + rng.normal(scale=0.01, size=state.shape), 0, 1).astype(np.float32)
        reward = (after[..., 0] > 0.5) != (step // turning % 2 > 0)
        reward = reward + 0.1 * rng.normal(size=lead)
        flags = {name: rng.random(lead) < chance for name, chance in ROLES.items()}
        context = np.full(lead, step // (3 * turning) % 3)
        obs, following = (seen(case, place) for place in (state, after))
        total = total + reward
        ended = np.asarray(flags["terminated"] | flags["truncated"])
        yield Step(Transition(obs, action, reward, following, **flags, context=context), ended, total)
        total = np.where(ended, 0, total)
        state = np.where(ended[..., None], rng.uniform(size=state.shape), after).astype(np.float32)


def seen(case: Case, state: Any) -> Any:
    return {"where": state, "door": state[..., 0] > 0.5} if case.dict_obs else state


class Critic:
    """A critic that drifts, and hears every batch it is asked about."""

    def __init__(self, hashes: Hashes) -> None:
        self.hashes, self.step = hashes, 0

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


class Hashes:
    """Running hashes by name; `marks` are their values at certain steps, so that the first difference can be told."""

    def __init__(self) -> None:
        self.running: dict[str, Any] = {}
        self.marks: dict[str, str] = {}

    def add(self, what: str, parts: Mapping[str, Any]) -> None:
        update(self.running.setdefault(what, hashlib.sha256()), parts)

    def mark(self, step: int) -> None:
        for what, running in self.running.items():
            self.marks[f"{what} until step {step}"] = running.hexdigest()[:16]

    def note(self, prefix: str, parts: Mapping[str, Any]) -> None:
        """A hash for each of the parts."""
        for name, part in parts.items():
            running = hashlib.sha256()
            update(running, {name: part})
            self.marks[f"{prefix} {name}"] = running.hexdigest()[:16]


def update(running: Any, parts: Mapping[str, Any]) -> None:
    """Names, types, shapes and bytes of tensors; numbers and text as Python prints them."""
    import torch

    for name in sorted(parts):
        part = parts[name]
        if isinstance(part, torch.Tensor):
            array = part.detach().cpu().contiguous().numpy()
            running.update(f"{name} {part.dtype} {tuple(part.shape)}".encode())
            running.update(array.tobytes())
        elif isinstance(part, bytes):
            running.update(name.encode() + part)
        else:
            running.update(f"{name} {part!r}".encode())


def batch_parts(batch: Any) -> dict[str, Any]:
    """The fields of a batch by name, nested ones too."""
    parts: dict[str, Any] = {}
    for name in ("obs", "action", "reward", "next_obs", "discount", "weight", "index", "context"):
        value = getattr(batch, name)
        parts |= {f"{name}.{key}": v for key, v in value.items()} if isinstance(value, dict) else {name: value}
    for name, anchor in (batch.anchor or {}).items():
        parts |= {f"anchor.{name}.target": anchor.target, f"anchor.{name}.coefficient": anchor.coefficient}
    return parts


def report_parts(report: Any) -> dict[str, Any]:
    """What a consolidation reports, less the seconds, which no two runs share, and the words of its warnings."""
    if report is None:
        return {"report": None}
    return {**report.values, "histogram": report.histogram, "warnings": len(report.warnings)}


def live(memory: Any, case: Case, steps: range, walked: Iterator[Step], hashes: Hashes) -> dict[str, float]:
    """Use the memory for some steps; sums of what its consolidations reported, to see that they did something."""
    critic, sums = Critic(hashes), dict.fromkeys(("consolidations",), 0.0)
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
            memory.update(batch.index, critic.td_error(batch))
            if case.crystal and step % 100 in (40, 90):
                memory.pin(batch.index[..., :2], pinned=step % 100 == 40)
        if memory.due or (not case.crystal and step % 100 == 50):
            report = memory.consolidate(critic)
            hashes.add("reports", report_parts(report))
            sums["consolidations"] += 1
            for name, value in (report.values if report else {}).items():
                sums[name] = sums.get(name, 0.0) + float(value.nansum())
        if step % 20 == 19:
            hashes.mark(step + 1)
    return sums


def add(memory: Any, case: Case, now: Step, step: int) -> Any:
    """Store one step; now and then an environment has none, or a demonstration starts with a high c."""
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


def file_parts(content: bytes) -> dict[str, Any]:
    """What a safetensors file says, without the order of its metadata, which is random, and the checksum over it."""
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    metadata = {name: text for name, text in header.pop("__metadata__").items() if name != "checksum"}
    places = json.dumps(header, sort_keys=True)
    return {"file metadata": sorted(metadata.items()), "file places": places, "file data": content[8 + length :]}


def probe(case: Case, folder: Path) -> tuple[dict[str, str], dict[str, float]]:
    """Use a memory, saved and loaded halfway; hashes, and sums of what was reported."""
    from crystalrl import load_memory

    hashes, half = Hashes(), case.steps // 2
    with lists_kept(case):
        memory, walked = build(case), walk(case, 1)
        sums = live(memory, case, range(half), walked, hashes)
        content = describe(memory, case, hashes, folder, "halfway")
        path = folder / f"{case.name}.safetensors"
        if case.lanes is None:
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
            setattr(self.home, self.name, {**self.before, "cpu": LISTS_FROM})

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
    if ("numba" in sys.modules) != (backend == "numba"):
        raise RuntimeError(f"backend: wanted {backend}, but numba was {'' if backend != 'numba' else 'not '}loaded")
    if backend == "triton" and "triton" not in sys.modules:
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
