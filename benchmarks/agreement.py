"""How much kept neighbour lists change a memory, compared with the effect of a change of ε by 1 %.

Seed by seed, three memories go through the same 100 consolidations of a 2-D walk whose goal moves four times: one
compares all pairs, one keeps lists, and one compares all pairs with an ε that is 1 % larger. Small differences grow,
because an eviction decides where the next experience is stored; so the third shows how much disagreement means nothing.
Agreement is counted over all experiences that ever arrived (an evicted one is empty), and over those that both hold.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks import internals
from benchmarks.harness.pages import table
from benchmarks.harness.results import Result, Setting
from crystalrl import Batch, CrystalParams, Evaluation, Transition
from crystalrl.dynamics import PHASES

ENVS = 50
MOVES = np.array([[0.05, 0], [-0.05, 0], [0, 0.05], [0, -0.05]])
GOALS = np.array([[0.2, 0.2], [0.8, 0.8], [0.2, 0.8], [0.8, 0.2]])


def evaluation(batch: Batch, theta: float) -> Evaluation:
    assert isinstance(batch.obs, Tensor)
    assert isinstance(batch.next_obs, Tensor)
    value, next_value = (torch.sin(3 * obs[..., 0] + theta) for obs in (batch.obs, batch.next_obs))
    return Evaluation(batch.reward + 0.9 * next_value - value, {"q": value[..., None]})


def walk(rng: np.random.Generator, steps: int) -> Iterator[Transition]:
    state = rng.uniform(size=(ENVS, 2)).astype(np.float32)
    for step in range(steps):
        action = rng.integers(0, 4, ENVS)
        next_state = state + MOVES[action] + rng.normal(scale=0.01, size=(ENVS, 2))
        next_state = np.clip(next_state, 0, 1).astype(np.float32)
        reward = np.linalg.norm(next_state - GOALS[step * 4 // steps], axis=-1) < 0.25
        yield Transition(state, action, reward.astype(np.float32), next_state, np.zeros(ENVS, bool))
        ends = rng.random((ENVS, 1)) < 0.01
        state = np.where(ends, rng.uniform(size=(ENVS, 2)), next_state).astype(np.float32)


def final_phases(seed: int, slots: int, turns: int, exact_up_to: int, factor: float = 1.0) -> tuple[Tensor, float]:
    """Phase uint8 of every experience that ever arrived, at the end; and how many were contradicted on the way.

    factor: of the automatic ε, where all pairs are compared.
    """
    params, kind = CrystalParams.anchored(), internals.exact_up_to(exact_up_to)
    memory = kind(
        slots,
        obs=(2,),
        action=4,
        params=params,
        anchor={"q": (1,)} if params.uses_anchors else None,
        envs=ENVS,
        seed=seed,
    )
    if factor != 1:
        internals.scale_epsilon(memory, factor)
    flagged, consolidations = 0.0, 0
    for transition in walk(np.random.default_rng(seed), turns * params.interval(slots) // ENVS):
        memory.add(transition)
        if memory.due:
            theta = 0.02 * min(consolidations, 50)
            consolidations += 1
            report = memory.consolidate(lambda batch, theta=theta: evaluation(batch, theta))  # type: ignore[misc]
            flagged += float(report.values["contradicted"])
    return internals.phase_by_birth(memory), flagged


def compared(seed: int, slots: int, turns: int) -> dict[str, dict[str, float]]:
    ended = {
        "lists": final_phases(seed, slots, turns, slots // 5),
        "exact": final_phases(seed, slots, turns, slots),
        "exact, ε + 1 %": final_phases(seed, slots, turns, slots, 1.01),
    }
    rows, exact = {}, ended["exact"][0]
    for name, (phases, flagged) in ended.items():
        same, both = phases == exact, (phases > 0) & (exact > 0)
        shares = {"all": float(same.float().mean()), "held_by_both": float(same[both].float().mean())}
        counts = {kind: int((phases == number).sum()) for number, kind in enumerate(PHASES) if number}
        rows[name] = {**shares, **counts, "flagged": flagged}
    return rows


def measure(setting: Setting) -> Iterator[Result]:
    """Means over the seeds, and the agreement of each."""
    slots, turns, seeds = (1500, 20, 2) if setting.quick else (5000, 100, 3)
    each = [compared(seed, slots, turns) for seed in range(seeds)]
    rows: dict[str, dict[str, Any]] = {}
    for name, first in each[0].items():
        rows[name] = {key: float(np.mean([seed[name][key] for seed in each])) for key in first}
        rows[name]["by_seed"] = [seed[name]["all"] for seed in each]
    yield {"slots": slots, "turns": turns, "seeds": seeds, "rows": rows}


def block(result: Result) -> str:
    keys = ("all", "held_by_both", "liquid", "glass", "crystal", "flagged")
    rows = [
        [name, *(f"{row[key]:.3f}" if key in keys[:2] else f"{row[key]:,.0f}" for key in keys)]
        for name, row in result["rows"].items()
    ]
    seeds = "; ".join(
        f"{name}: " + ", ".join(f"{share:.3f}" for share in row["by_seed"])
        for name, row in result["rows"].items()
        if name != "exact"
    )
    head = ["", "agree: all that ever arrived", "agree: held by both", *keys[2:5], "contradicted in total"]
    return f"{table(head, rows)}\n\nSeed by seed: {seeds}."
