"""How often the rules of interference are right: flags under noise, recall of true contradictions, automatic ε.

    python benchmarks/interference.py --json runs/interference.json

`docs/interference.md` shows the numbers. "Literal" is a rule as it was first written; the library's own
adds a guard against noise (`crystalrl.memory.neighbours.contradiction`). "Elders" is the guard that was tried first for
fresh_mean: an experience at odds with the mean of its elders is an outlier and not flagged.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch

from crystalrl.dynamics import CRYSTAL, LIQUID
from crystalrl.memory.neighbours.contradiction import contradicted
from crystalrl.memory.neighbours.epsilon import liquid_spacing
from crystalrl.memory.neighbours.exact import median_spacing, moments
from crystalrl.memory.neighbours.experiences import Experiences
from crystalrl.memory.neighbours.kernels import backend_for

NOISE = (0.0, 0.01, 0.05, 0.2)


def sites(count: int, members: int, noise: float, changed: bool, newer: float, seed: int) -> dict[str, Any]:
    """`count` places, `members` experiences at each, the older ones crystal, a share `newer` of all liquid.

    The reward of a place is 0; with probability `noise` it is 1 instead. If `changed`, the newer ones have 1 instead of
    0 (and 0 with probability `noise`): the true contradictions are the crystals that say 0.
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
        state=state, action=action, reward=reward, birth=torch.arange(total)[None], phase=phase, unevaluated=new,
        context=None, discrete=True,
    )  # fmt: skip


def library(rule: str, scene: Experiences, epsilon: float, delta_r: float) -> np.ndarray:
    """Flags of the library's rule."""
    pairs = backend_for(torch.device("cpu")).pairs
    return contradicted(rule, scene, torch.tensor([[epsilon]]), torch.tensor([[delta_r]]), pairs)[0].numpy()


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


def elders(rule: str, scene: Experiences, epsilon: float, delta_r: float) -> np.ndarray:
    return literal(rule, scene, epsilon, delta_r, guarded=True)


READINGS = {"literal": literal, "elders": elders, "library": library}


def noise_row(rule: str, reading: str, members: int, count: int, seeds: int = 3) -> dict[str, Any]:
    """Share of the experiences that could be flagged and are; recall when half, or two thirds, of a place are newer."""

    def share(noise: float, changed: bool, newer: float, of: str) -> float:
        shares = []
        for seed in range(seeds):
            data = sites(count, members, noise, changed, newer, seed)
            state = torch.tensor(data["state"], dtype=torch.float32)[None]
            could = data["truth"] if of == "truth" else ~data["new"] | (rule != "fresh_mean")
            shares.append(READINGS[reading](rule, scene_of(data, state), 0.5, 0.5)[could].mean())
        return float(np.mean(shares))

    row: dict[str, Any] = {"rule": rule, "reading": reading, "neighbours": members}
    for noise in NOISE[1:]:
        row[f"flagged, p = {noise:g}"] = share(noise, False, 1 / 2, "could")
    for noise in NOISE:
        row[f"recall, p = {noise:g}"] = share(noise, True, 1 / 2, "truth")
        row[f"recall, p = {noise:g}, two thirds newer"] = share(noise, True, 2 / 3, "truth")
    return row


def walk(total: int, seed: int) -> dict[str, np.ndarray]:
    """A 2-D navigation stream: half of it with one goal, half with another.

    Position in the unit square, five actions (stay and four directions) with step .08 and noise .01, reward 1 within .1
    of the goal (then a new start) minus .02 per step, at most 40 steps; actions two thirds towards the goal. The true
    contradictions are the older rewarded experiences to which at least two newer ones within .05, of the same action,
    brought no reward.
    """
    rng = np.random.default_rng(seed)
    moves = np.array([[0, 0], [1, 0], [-1, 0], [0, 1], [0, -1]]) * 0.08
    goals = rng.uniform(0.15, 0.85, (2, 2))
    while np.linalg.norm(goals[0] - goals[1]) < 0.35:
        goals = rng.uniform(0.15, 0.85, (2, 2))
    state, action, reward = np.zeros((total, 2)), np.zeros(total, int), np.zeros(total, np.float32)
    at, steps = rng.random(2), 0
    for t in range(total):
        goal = goals[int(t >= total // 2)]
        act = int(rng.integers(5))
        if rng.random() < 2 / 3:
            act = int(np.argmin(np.linalg.norm(at + moves - goal, axis=1)))
        then = np.clip(at + moves[act] + rng.normal(size=2) * 0.01, 0, 1)
        hit = np.linalg.norm(then - goal) < 0.1
        state[t], action[t], reward[t] = at, act, float(hit) - 0.02
        at, steps = then, steps + 1
        if hit or steps == 40:
            at, steps = rng.random(2), 0
    new = np.arange(total) >= total // 2
    apart = np.linalg.norm(state[:, None] - state[None], axis=-1)
    against = (apart < 0.05) & (action[:, None] == action[None]) & new & (reward < 0.5)
    truth = ~new & (reward > 0.5) & (against.sum(-1) >= 2)
    same = ~new & (reward < 0.5) & (np.linalg.norm(state - goals[1], axis=1) > 0.25)
    return {"state": state, "action": action, "reward": reward, "new": new, "truth": truth, "same": same}


def automatic_row(total: int, rule: str, how: str, nearest: int | None, seeds: int = 3) -> dict[str, Any]:
    """Recall and false flags in the navigation stream with ε from the stored states.

    nearest None: the median distance to the nearest state; n: the median distance to the n-th nearest of the same
    action. False flags: among older experiences without reward, far from the new goal.
    """
    found, wrong, used = [], [], []
    for seed in range(seeds):
        data = walk(total, seed)
        state = torch.tensor(data["state"], dtype=torch.float32)[None]
        occupied = torch.ones(1, total, dtype=torch.bool)
        mean, deviation = moments(state, occupied)
        scene = scene_of(data, (state - mean) / deviation)
        pairs = backend_for(torch.device("cpu")).pairs
        if nearest is None:
            epsilon = median_spacing(scene.state, occupied, pairs)
        else:
            epsilon = liquid_spacing(scene, nearest, pairs)
        flagged = READINGS[how](rule, scene, float(epsilon), float(data["reward"].std()))
        found.append(flagged[data["truth"]].mean())
        wrong.append(flagged[data["same"]].mean())
        used.append(float(epsilon))
    return {
        "rule": rule, "reading": how, "experiences": total,
        "ε": "nearest" if nearest is None else f"{nearest}th of the same action", "ε used": float(np.mean(used)),
        "recall": float(np.mean(found)), "false flags": float(np.mean(wrong)),
    }  # fmt: skip


def measure() -> dict[str, Any]:
    rules = [("exists", "literal"), ("newer_majority", "literal"), ("newer_majority", "library")]
    rules += [("fresh_mean", how) for how in READINGS]
    return {
        "noise": [noise_row(*rule, *size) for size in ((500, 4), (20, 50)) for rule in rules],
        "automatic": [
            automatic_row(total, *rule, nearest)
            for rule in rules[1:]
            for nearest in (None, 5, 10, 20)
            for total in (1000, 2000, 4000)
        ],
    }


def show(rows: list[dict[str, Any]]) -> None:
    names = list(rows[0])
    print("| " + " | ".join(names) + " |\n|" + "---|" * len(names))
    for row in rows:
        cells = (f"{row[n]:.3f}" if isinstance(row[n], float) else str(row[n]) for n in names)
        print("| " + " | ".join(cells) + " |")
    print()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="write the numbers to this file, too")
    given = parser.parse_args()
    results = measure()
    for rows in results.values():
        show(rows)
    if given.json:
        given.json.parent.mkdir(parents=True, exist_ok=True)
        given.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
