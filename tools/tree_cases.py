"""The memories that `tree_probe.py` uses, and the experiences that it feeds them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

ENDINGS = {"terminated": 0.02, "truncated": 0.02}
"""Probability that an episode ends at a step."""


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
    """Approximate number of steps between consolidations; episodes also end with one, if the parameters say so."""
    background: bool = False
    """Whether consolidations are planned in a thread."""
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
    """Every kind × lanes × size; with numba also unusual options."""
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
    if backend == "numba" and not quick:
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
    """Options that the others leave at their defaults."""
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
        Case("anchored", slots=300, envs=2, background=True, label="background"),
        Case("anchored", slots=600, lists=True, envs=4, background=True, label="background"),
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
    return CrystalParams.repaired(**{"alpha": 0.2, "beta": 0.2, **pace, **case.options})


def build(case: Case) -> Any:
    """The memory of a case."""
    import torch

    import crystalrl

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
        "device": os.environ.get("PROBE_DEVICE", "cpu"),
    }
    if case.crystal:
        anchor = {"q": (2,), "pi": ()} if case.kind == "anchored" else None
        return crystalrl.CrystalMemory(case.slots, params=params_of(case), anchor=anchor, **storage)
    return getattr(crystalrl, f"{case.kind.capitalize()}Memory")(case.slots, **case.options, **storage)


@dataclass
class Step:
    """A transition, the environments whose episodes it ends, and their returns."""

    transition: Any
    ended: Any
    episode_return: Any


def walk(case: Case, seed: int) -> Iterator[Step]:
    """Walks in a square; its two halves are rewarded alternately, so that experiences contradict each other."""
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
        flags = {name: rng.random(lead) < chance for name, chance in ENDINGS.items()}
        context = np.full(lead, step // (3 * turning) % 3)
        obs, following = (seen(case, place) for place in (state, after))
        total = total + reward
        ended = np.asarray(flags["terminated"] | flags["truncated"])
        yield Step(Transition(obs, action, reward, following, **flags, context=context), ended, total)
        total = np.where(ended, 0, total)
        state = np.where(ended[..., None], rng.uniform(size=state.shape), after).astype(np.float32)


def seen(case: Case, state: Any) -> Any:
    return {"where": state, "door": state[..., 0] > 0.5} if case.dict_obs else state
