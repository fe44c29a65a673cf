"""What a memory keeps of many contexts, and what it gives up when one is redefined.

Fifty contexts come one after another; the memory is not told their ids. The measure is the effective number of contexts
among the crystals, 1/Σp². Then comes a stream of two contexts of which one is redefined: the share of each context's
crystals that melts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from itertools import repeat
from multiprocessing import get_context
from typing import Any

import numpy as np
import torch

from benchmarks.harness.pages import table
from benchmarks.harness.results import Result, Setting
from crystalrl import Batch, CrystalMemory, CrystalParams, Evaluation, Transition

ENVS, SLOTS, BETWEEN = 25, 1200, 200
ANCHORED = CrystalParams.anchored(time_unit=BETWEEN)
Reward = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""Of places [E, 2] and actions [E]."""


def steps(rng: np.random.Generator, centre: np.ndarray, reward: Reward) -> Transition:
    """One step of each environment in a square of width 2; the context is the centre [2 or 3] of its square."""
    place = rng.uniform(-1, 1, (ENVS, 2))
    action = rng.integers(0, 4, ENVS)
    after = np.clip(place + rng.normal(size=(ENVS, 2)) * 0.1, -1, 1)
    flat = np.zeros((ENVS, len(centre) - 2))
    obs, next_obs = (np.concatenate([x, flat], 1) + centre for x in (place, after))
    ends = np.zeros(ENVS, bool)
    return Transition(obs.astype(np.float32), action, reward(place, action), next_obs.astype(np.float32), ends)


LAYOUTS: dict[str, Callable[[int], np.ndarray]] = {
    "layers": lambda context: np.array([0.0, 0.0, 2.0 * context]),
    "tiles": lambda context: np.array([4.0 * (context % 8), 4.0 * (context // 8), 0.0]),
    "plane": lambda context: np.array([4.0 * (context % 8), 4.0 * (context // 8)]),
}
"""Centre of a context's square. Layers: the same places, told apart by a third coordinate. Tiles: next to each other.
Plane: as tiles, without the third coordinate."""


def located(obs: np.ndarray, layout: str) -> tuple[np.ndarray, np.ndarray]:
    """Context of observations [N, D], and the place [N, 2] in its square."""
    if layout == "layers":
        return np.round(obs[:, 2] / 2).astype(int), obs[:, :2]
    cell = np.round(obs[:, :2] / 4).astype(int)
    return cell[:, 0] + 8 * cell[:, 1], obs[:, :2] - 4.0 * cell


def quadrant(place: np.ndarray, action: np.ndarray) -> np.ndarray:
    """Reward 1 for the action that names the quadrant."""
    return ((place[:, 0] > 0) * 2 + (place[:, 1] > 0) == action).astype(np.float32)


def other_quadrant(place: np.ndarray, action: np.ndarray) -> np.ndarray:
    return quadrant(place, (action + 1) % 4)


def surprise(batch: Batch) -> Evaluation:
    """A critic whose errors depend on the place and whose outputs never change."""
    obs = batch.obs
    assert isinstance(obs, torch.Tensor)
    return Evaluation(torch.sin(37 * obs[..., 0] + 91 * obs[..., 1]).abs(), {"q": obs[..., :2].contiguous()})


def fifty(
    params: CrystalParams, capacity: int, per_context: int, between: int, contexts: int = 50, layout: str = "tiles"
) -> Result:
    """Stream the contexts, consolidate every `between` steps, and count what the crystals hold at the end."""
    rng, centre = np.random.default_rng(0), LAYOUTS[layout]
    shape = {"obs": centre(0).shape, "action": 4, "envs": ENVS, "seed": 1}
    memory = CrystalMemory(capacity, params=params, anchor={"q": (2,)} if params.uses_anchors else None, **shape)
    given = 0
    for context in range(contexts):
        for _ in range(per_context // ENVS):
            memory.add(steps(rng, centre(context), quadrant))
            given += ENVS
            if given % between == 0:
                memory.consolidate(surprise)
    crystals, _ = located(memory.experiences("crystal")["obs"].numpy(), layout)
    share = np.bincount(crystals, minlength=contexts) / max(len(crystals), 1)
    return {
        "crystals": len(crystals),
        "room": params.caps(capacity)[2],
        "contexts": int((share > 0).sum()),
        "effective": float(1 / (share**2).sum()) if len(crystals) else 0.0,
    }


class Critic:
    """A table of mean rewards over (context, cell, action), cells of width ¼; δ = reward − the table's value."""

    def __init__(self, layout: str) -> None:
        self.layout = layout
        self.value = np.zeros((2, 8, 8, 4))

    def _at(self, obs: np.ndarray, action: np.ndarray) -> tuple[np.ndarray, ...]:
        context, place = located(obs, self.layout)
        cell = np.clip(((place + 1) * 4).astype(int), 0, 7)
        return context, cell[:, 0], cell[:, 1], action

    def learn(self, batch: Batch, rate: float = 0.2) -> None:
        at = self._at(batch.obs.numpy(), batch.action.numpy())  # type: ignore[union-attr]
        np.add.at(self.value, at, rate * batch.weight.numpy() * (batch.reward.numpy() - self.value[at]))

    def evaluate(self, batch: Batch) -> Evaluation:
        obs = batch.obs.numpy()  # type: ignore[union-attr]
        context, x, y, action = self._at(obs, batch.action.numpy())
        error = batch.reward.numpy() - self.value[context, x, y, action]
        return Evaluation(
            torch.tensor(error, dtype=torch.float32), {"q": torch.tensor(self.value[context, x, y]).float()}
        )


class Life:
    """A crystal memory and a critic that learns from it."""

    def __init__(self, seed: int, layout: str, params: CrystalParams) -> None:
        shape: Any = {"obs": LAYOUTS[layout](0).shape, "action": 4, "envs": ENVS, "seed": seed}
        self.memory = CrystalMemory(SLOTS, params=params, anchor={"q": (4,)} if params.uses_anchors else None, **shape)
        self.critic, self.layout, self.rng = Critic(layout), layout, np.random.default_rng(seed)

    def live(self, context: int, reward: Reward, consolidations: int) -> None:
        for _ in range(consolidations):
            for _ in range(BETWEEN // ENVS):
                self.memory.add(steps(self.rng, LAYOUTS[self.layout](context), reward))
                if len(self.memory) > 256:
                    self.critic.learn(self.memory.sample(64))
            self.memory.consolidate(self.critic.evaluate)

    def crystals(self) -> tuple[np.ndarray, dict[str, Any]]:
        """Their numbers in order of arrival, and their experiences."""
        found = self.memory.experiences("crystal")
        return self.memory.ledger.birth[0, found["index"]].numpy(), found


def redefine(seed: int, layout: str = "layers", params: CrystalParams = ANCHORED) -> dict[str, int]:
    """Learn context 0, then context 1, then context 0 with other rewards; follow the crystals of both.

    Counted as melted are those that were crystals at the redefinition and no longer are 20 consolidations later: of
    context 0 those whose place and action have another reward now, of context 1 any.
    """
    life = Life(seed, layout, params)
    life.live(0, quadrant, 40)
    life.live(1, quadrant, 40)
    births, before = life.crystals()
    context, place = located(before["obs"].numpy(), layout)
    action = before["action"].numpy()
    changed = (context == 0) & (quadrant(place, action) != other_quadrant(place, action))
    life.live(0, other_quadrant, 20)
    gone = ~np.isin(births, life.crystals()[0])
    return {
        "contradicted crystals": int(changed.sum()),
        "of them melted": int(gone[changed].sum()),
        "crystals of the other context": int((context == 1).sum()),
        "of those melted": int(gone[context == 1].sum()),
    }


SEEN = 50
"""The rules were chosen on seeds from 1000 on, but earlier forms had been tried on the first fifty."""
VARIANTS: dict[str, tuple[int, CrystalParams]] = {
    "default": (SEEN + 20, ANCHORED),
    "warm": (5, replace(ANCHORED, warm=True)),
    "warm, 2 sweeps": (5, replace(ANCHORED, warm=True, sweeps=2)),
}
"""Seeds and parameters."""


def measure(setting: Setting) -> Iterator[Result]:
    contexts, most = (5, 1) if setting.quick else (50, SEEN + 20)
    anchored, paper = (CrystalParams.anchored(), 3200, 1600, 800), (CrystalParams.paper(), 320, 3000, 50)
    cases = {f"anchored, {layout}": (*anchored, contexts, layout) for layout in LAYOUTS}
    cases["paper, tiles"] = (*paper, contexts, "tiles")
    with ProcessPoolExecutor(2, get_context("spawn"), torch.set_num_threads, (1,)) as pool:
        kept = dict(zip(cases, pool.map(fifty, *zip(*cases.values(), strict=True)), strict=True))
        yield {"fifty contexts": kept, "redefinition": {name: _redefinition(pool, name, most) for name in VARIANTS}}


def _redefinition(pool: ProcessPoolExecutor, variant: str, most: int) -> dict[str, list[dict[str, int]]]:
    seeds, params = VARIANTS[variant]
    one = partial(redefine, params=params)
    return {layout: list(pool.map(one, range(min(seeds, most)), repeat(layout))) for layout in LAYOUTS}


LABELS = {
    "layers": "layers: the same places, told apart by a third coordinate",
    "tiles": "tiles next to each other",
    "plane": "tiles, without a third coordinate",
}


def redefinition_block(result: Result) -> str:
    default, *others = result["redefinition"].items()
    rows = [_redefined(LABELS[layout], runs) for layout, runs in default[1].items()]
    if unseen := [run for runs in default[1].values() for run in runs[SEEN:]]:
        rows.append(_redefined("of these, the seeds on which no form of the rules was ever tried", unseen))
    rows += [
        _redefined(f"all layouts, {variant}", [run for runs in layouts.values() for run in runs])
        for variant, layouts in others
    ]
    head = ["layout", "contradicted crystals melted", "least", "others lost", "most", "runs above 3 %"]
    return table(head, rows)


def _redefined(name: str, runs: list[dict[str, int]]) -> list[str]:
    contradicted, melted, others, lost = ([run[column] for run in runs] for column in runs[0])
    shares = [part / whole for part, whole in zip(lost, others, strict=True)]
    return [
        name,
        f"{sum(melted):,} of {sum(contradicted):,}",
        f"{min(part / whole for part, whole in zip(melted, contradicted, strict=True)):.1%}",
        f"{sum(lost):,} of {sum(others):,} ({sum(lost) / sum(others):.2%})",
        f"{max(shares):.1%}",
        f"{sum(share > 0.03 for share in shares)} of {len(shares)}",
    ]


def fifty_block(result: Result) -> str:
    rows = [
        [name, f"{row['crystals']:,} of {row['room']:,}", str(row["contexts"]), f"{row['effective']:.1f}"]
        for name, row in result["fifty contexts"].items()
    ]
    return table(["", "crystals", "contexts among them", "effective number"], rows)
