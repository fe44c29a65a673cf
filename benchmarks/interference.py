"""How often the rules of interference are right: flags under noise, recall of true contradictions, automatic ε.

"Literal" is a rule as it was first written; the library's own adds a guard against noise
(`crystalrl.memory.neighbours.contradiction`). The guard that was tried first for fresh_mean is measured, too: an
experience that differs from the mean of the older ones is an outlier and is not flagged.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from benchmarks.harness.pages import table
from benchmarks.harness.results import Part, Result, Setting, in_parts
from benchmarks.internals import Experiences, contradicted, liquid_spacing, median_spacing, moments
from crystalrl.backends import backend_for
from crystalrl.dynamics import CRYSTAL, LIQUID

NOISE = (0.0, 0.01, 0.05, 0.2)
PAIRS = backend_for(torch.device("cpu")).pairs


def sites(count: int, members: int, noise: float, changed: bool, newer: float, seed: int) -> Result:
    """`count` places with `members` experiences each: the older ones crystal, the share `newer` of all liquid.

    The reward of a place is 0; with probability `noise` it is 1 instead. If `changed`, the newer ones have 1 instead of
    0 (and 0 with probability `noise`): the true contradictions are the crystals with reward 0.
    """
    rng = np.random.default_rng(seed)
    total = count * members
    new = np.arange(total) >= total * (1 - newer)
    reward = (rng.random(total) < noise).astype(np.float32)
    if changed:
        reward = np.where(new, 1 - reward, reward).astype(np.float32)
    return {
        "state": rng.permutation(np.repeat(np.arange(count), members))[:, None],
        "action": np.zeros(total, int),
        "reward": reward,
        "new": new,
        "truth": ~new & (reward == 0),
    }


def scene_of(data: dict[str, Any], state: torch.Tensor) -> Experiences:
    total = len(data["reward"])
    phase = torch.tensor(np.where(data["new"], LIQUID, CRYSTAL), dtype=torch.uint8)[None]
    action = torch.tensor(data["action"]).view(1, total, 1).float()
    reward, new = torch.tensor(data["reward"])[None], torch.tensor(data["new"])[None]
    return Experiences(
        state=state,
        action=action,
        reward=reward,
        birth=torch.arange(total)[None],
        phase=phase,
        unevaluated=new,
        context=None,
        discrete=True,
    )


def library(rule: str, scene: Experiences, epsilon: float, delta_r: float) -> np.ndarray:
    """Flags of the library's rule."""
    return contradicted(rule, scene, torch.tensor([[epsilon]]), torch.tensor([[delta_r]]), PAIRS)[0].numpy()


def literal(rule: str, scene: Experiences, epsilon: float, delta_r: float, guarded: bool = False) -> np.ndarray:
    """Flags of the rule without the guard for outliers, one experience at a time."""
    state, action, reward = scene.state[0].numpy(), scene.action[0, :, 0].numpy(), scene.reward[0].numpy()
    liquid = scene.phase[0].numpy() == LIQUID
    flagged = np.zeros(len(reward), bool)
    for i in range(len(reward)):
        near = (np.abs(state - state[i]) <= epsilon).all(-1) & (action == action[i])
        near &= ((state - state[i]) ** 2).sum(-1) <= epsilon**2
        near[i] = False
        differ = np.abs(reward - reward[i]) > delta_r
        if rule == "exists":
            flagged[i] = (near & differ).any()
        elif rule == "newer_majority":
            newer = near & (np.arange(len(reward)) > i)
            flagged[i] = (newer & differ).sum() >= 2 and (newer & differ).sum() > newer.sum() / 2
        elif not liquid[i] and (near & liquid).any():
            flagged[i] = abs(reward[near & liquid].mean() - reward[i]) > delta_r
            if guarded and (near & ~liquid).any():
                flagged[i] &= abs(reward[near & ~liquid].mean() - reward[i]) <= delta_r
    return flagged


def guarded_by_mean(rule: str, scene: Experiences, epsilon: float, delta_r: float) -> np.ndarray:
    return literal(rule, scene, epsilon, delta_r, guarded=True)


READINGS = {"literal": literal, "elders": guarded_by_mean, "library": library}


def _share(rule: str, reading: str, scenes: list[dict[str, Any]], of: str) -> float:
    """Mean over scenes of the share that is flagged: of the true contradictions, or of all that the rule may flag."""
    shares = []
    for data in scenes:
        state = torch.tensor(data["state"], dtype=torch.float32)[None]
        among = data["truth"] if of == "truth" else ~data["new"] | (rule != "fresh_mean")
        shares.append(READINGS[reading](rule, scene_of(data, state), 0.5, 0.5)[among].mean())
    return float(np.mean(shares))


def noise_row(rule: str, reading: str, members: int, count: int, seeds: int = 3) -> Result:
    """Share of the experiences that could be flagged and are; recall when half, or two thirds, of a place are newer."""

    def scenes(noise: float, changed: bool, newer: float) -> list[dict[str, Any]]:
        return [sites(count, members, noise, changed, newer, seed) for seed in range(seeds)]

    row: dict[str, Any] = {"rule": rule, "reading": reading, "neighbours": members}
    for noise in NOISE[1:]:
        row[f"flagged, p = {noise:g}"] = _share(rule, reading, scenes(noise, False, 1 / 2), "all")
    for noise in NOISE:
        row[f"recall, p = {noise:g}"] = _share(rule, reading, scenes(noise, True, 1 / 2), "truth")
        row[f"recall, p = {noise:g}, two thirds newer"] = _share(rule, reading, scenes(noise, True, 2 / 3), "truth")
    return row


MOVES = np.array([[0, 0], [1, 0], [-1, 0], [0, 1], [0, -1]]) * 0.08


def walk(total: int, seed: int) -> dict[str, np.ndarray]:
    """A 2-D navigation stream: half of it with one goal, half with another.

    Position in the unit square, five actions (stay and four directions) with step .08 and noise .01, reward 1 within .1
    of the goal (then a new start) minus .02 per step, at most 40 steps; two thirds of the actions go towards the goal.
    The true contradictions are the older rewarded experiences for which at least two newer ones within .05, with the
    same action, brought no reward.
    """
    rng = np.random.default_rng(seed)
    goals = rng.uniform(0.15, 0.85, (2, 2))
    while np.linalg.norm(goals[0] - goals[1]) < 0.35:
        goals = rng.uniform(0.15, 0.85, (2, 2))
    state, action, reward = np.zeros((total, 2)), np.zeros(total, int), np.zeros(total, np.float32)
    at, steps = rng.random(2), 0
    for t in range(total):
        goal = goals[int(t >= total // 2)]
        act = int(rng.integers(5))
        if rng.random() < 2 / 3:
            act = int(np.argmin(np.linalg.norm(at + MOVES - goal, axis=1)))
        after = np.clip(at + MOVES[act] + rng.normal(size=2) * 0.01, 0, 1)
        hit = np.linalg.norm(after - goal) < 0.1
        state[t], action[t], reward[t] = at, act, float(hit) - 0.02
        at, steps = (rng.random(2), 0) if hit or steps == 39 else (after, steps + 1)
    return {"state": state, "action": action, "reward": reward, **_truth(state, action, reward, goals[1])}


def _truth(state: np.ndarray, action: np.ndarray, reward: np.ndarray, goal: np.ndarray) -> dict[str, np.ndarray]:
    """new: the second half; truth: the true contradictions; same: older ones for which nothing has changed."""
    new = np.arange(len(state)) >= len(state) // 2
    apart = np.linalg.norm(state[:, None] - state[None], axis=-1)
    against = (apart < 0.05) & (action[:, None] == action[None]) & new & (reward < 0.5)
    truth = ~new & (reward > 0.5) & (against.sum(-1) >= 2)
    same = ~new & (reward < 0.5) & (np.linalg.norm(state - goal, axis=1) > 0.25)
    return {"new": new, "truth": truth, "same": same}


def automatic_row(total: int, rule: str, how: str, nearest: int | None, seeds: int = 3) -> Result:
    """Recall and false flags in the navigation stream with ε from the stored states.

    nearest None: the median distance to the nearest state; n: the median distance to the n-th nearest of the same
    action. False flags: among older experiences without reward, far from the new goal.
    """
    found, wrong, used = [], [], []
    for seed in range(seeds):
        data = walk(total, seed)
        state, occupied = torch.tensor(data["state"], dtype=torch.float32)[None], torch.ones(1, total, dtype=torch.bool)
        mean, deviation = moments(state, occupied)
        scene = scene_of(data, (state - mean) / deviation)
        if nearest is None:
            epsilon = median_spacing(scene.state, occupied, PAIRS)
        else:
            epsilon = liquid_spacing(scene, nearest, PAIRS)
        flagged = READINGS[how](rule, scene, float(epsilon), float(data["reward"].std()))
        found.append(flagged[data["truth"]].mean())
        wrong.append(flagged[data["same"]].mean())
        used.append(float(epsilon))
    return {
        "rule": rule, "reading": how, "experiences": total,
        "ε": "nearest" if nearest is None else f"{nearest}th of the same action", "ε used": float(np.mean(used)),
        "recall": float(np.mean(found)), "false flags": float(np.mean(wrong)),
    }  # fmt: skip


RULES = [("exists", "literal"), ("newer_majority", "literal"), ("newer_majority", "library")]
RULES += [("fresh_mean", how) for how in READINGS]


def measure(setting: Setting) -> Iterator[Result]:
    sizes, seeds = ((500,), 1) if setting.quick else ((1000, 2000, 4000), 3)
    places, scales = ((500, 4), (20, 50)), (None, 5, 10, 20)
    parts: dict[str, Part] = {
        "noise": lambda: {"noise": [noise_row(*rule, *size, seeds) for size in places for rule in RULES]},
        "automatic": lambda: {
            "automatic": [automatic_row(n, *rule, k, seeds) for rule in RULES[1:] for k in scales for n in sizes]
        },
    }
    return in_parts(setting, parts)


LABELS = {"literal": ", literal", "elders": ", outliers by the mean of older ones", "library": ""}


def several(*shares: float) -> str:
    return " / ".join(f"{share:.3f}" for share in shares)


def noise_block(result: Result) -> str:
    rows = []
    for row in result["noise"]:
        flagged = several(*(row[f"flagged, p = {p}"] for p in ("0.01", "0.05", "0.2")))
        found = (
            several(row[f"recall, p = {p}"], row[f"recall, p = {p}, two thirds newer"]) for p in ("0", "0.05", "0.2")
        )
        rows.append([f"`{row['rule']}`{LABELS[row['reading']]}", str(row["neighbours"]), flagged, *found])
    head = ["rule", "experiences per place", "flagged, p = .01 / .05 / .2", "recall, p = 0", "p = .05", "p = .2"]
    return table(head, rows)


def automatic_block(result: Result) -> str:
    rows = [row for row in result["automatic"] if row["reading"] == "library"]
    ways, sizes = list(dict.fromkeys(row["ε"] for row in rows)), sorted({row["experiences"] for row in rows})
    found = {(row["rule"], row["ε"], row["experiences"]): row["recall"] for row in rows}
    rules = ("fresh_mean", "newer_majority")
    body = [[way, *(several(*(found[rule, way, size] for rule in rules)) for size in sizes)] for way in ways]
    worst = max(row["false flags"] for row in rows)
    return f"{table(['ε', *(f'{n:,} experiences' for n in sizes)], body)}\n\nFalse flags: at most {worst:.1%}."
