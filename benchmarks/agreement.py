"""How far kept neighbour lists change what a memory does, beside what a change of ε by 1 % does.

    python benchmarks/agreement.py [--json FILE]

Seed by seed, three memories live through the same 100 consolidations of a 2-D walk whose goal moves four times: one
compares all pairs, one keeps lists, and one compares all pairs with an ε that is 1 % larger. Small differences grow,
because what is evicted decides where the next experience is stored; so the third says how much disagreement means
nothing. Agreement is counted over all experiences that ever came (an evicted one is empty), and over those that both
memories hold.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch

from crystalrl import CrystalMemory, CrystalParams, Evaluation, Transition
from crystalrl.memory.neighbours.epsilon import Scales
from crystalrl.memory.neighbours.experiences import Experiences
from crystalrl.memory.neighbours.kernels import Pairs
from crystalrl.types import Batch

SLOTS, ENVS, TURNS, SEEDS = 5000, 50, 100, 3
MOVES = np.array([[0.05, 0], [-0.05, 0], [0, 0.05], [0, -0.05]])
GOALS = np.array([[0.2, 0.2], [0.8, 0.8], [0.2, 0.8], [0.8, 0.2]])


def critic(theta: float) -> Any:
    def evaluate(batch: Batch) -> Evaluation:
        assert isinstance(batch.obs, torch.Tensor)
        assert isinstance(batch.next_obs, torch.Tensor)
        value, following = (torch.sin(3 * obs[..., 0] + theta) for obs in (batch.obs, batch.next_obs))
        return Evaluation(batch.reward + 0.9 * following - value, {"q": value[..., None]})

    return evaluate


class Stretched(Scales):
    """An ε that is 1 % larger."""

    def epsilon(self, experiences: Experiences, pairs: Pairs | None) -> torch.Tensor:
        return 1.01 * super().epsilon(experiences, pairs)


def lived(seed: int, exact_up_to: int, stretched: bool = False) -> tuple[torch.Tensor, float]:
    """Phase uint8 of every experience that ever came, at the end; and how many were contradicted on the way."""
    params = CrystalParams.anchored()
    memory = CrystalMemory(SLOTS, obs=(2,), action=4, params=params, anchor={"q": (1,)}, envs=ENVS, seed=seed)
    memory.neighbours.exact_up_to = exact_up_to
    if stretched:
        memory.neighbours.scales = Stretched(params, 1, memory.device)
    rng, flagged = np.random.default_rng(seed), 0.0
    steps = TURNS * params.interval(SLOTS) // ENVS
    state = rng.uniform(size=(ENVS, 2)).astype(np.float32)
    for step in range(steps):
        action = rng.integers(0, 4, ENVS)
        following = state + MOVES[action] + rng.normal(scale=0.01, size=(ENVS, 2))
        following = np.clip(following, 0, 1).astype(np.float32)
        reward = np.linalg.norm(following - GOALS[step * 4 // steps], axis=-1) < 0.25
        memory.add(Transition(state, action, reward.astype(np.float32), following, np.zeros(ENVS, bool)))
        ends = rng.random((ENVS, 1)) < 0.01
        state = np.where(ends, rng.uniform(size=(ENVS, 2)), following).astype(np.float32)
        if memory.due:
            report = memory.consolidate(critic(0.02 * min(int(memory.turns), 50)))
            flagged += float(report.values["contradicted"])
    phases = torch.zeros(int(memory.ledger.number[0]), dtype=torch.uint8)
    stored = memory.ledger.phase[0] > 0
    phases[memory.ledger.birth[0, stored]] = memory.ledger.phase[0, stored]
    return phases, flagged


def compared(seed: int) -> dict[str, dict[str, float]]:
    ended = {"lists": lived(seed, 1000), "exact": lived(seed, SLOTS), "exact, ε + 1 %": lived(seed, SLOTS, True)}
    exact = ended["exact"][0]
    rows = {}
    for name, (phases, flagged) in ended.items():
        same, both = phases == exact, (phases > 0) & (exact > 0)
        shares = {"all": float(same.float().mean()), "held_by_both": float(same[both].float().mean())}
        counts = {kind: int((phases == number).sum()) for number, kind in ((1, "liquid"), (2, "glass"), (3, "crystal"))}
        rows[name] = {**shares, **counts, "flagged": flagged}
    return rows


def run() -> dict[str, Any]:
    """Means over the seeds, and the agreement of each."""
    each = [compared(seed) for seed in range(SEEDS)]
    rows: dict[str, dict[str, Any]] = {}
    for name, first in each[0].items():
        rows[name] = {key: float(np.mean([seed[name][key] for seed in each])) for key in first}
        rows[name]["by_seed"] = [seed[name]["all"] for seed in each]
    return {"slots": SLOTS, "turns": TURNS, "seeds": SEEDS, "rows": rows}


def main() -> None:
    parser = argparse.ArgumentParser(description="How far kept neighbour lists change what a memory does.")
    parser.add_argument("--json", type=Path, help="write the numbers to this file")
    options = parser.parse_args()
    result = run()
    print(json.dumps(result, indent=2))
    if options.json:
        options.json.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
