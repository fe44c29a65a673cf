"""A small life of a memory, for pictures: two tasks one after another, then the first one redefined.

Each step shows a point x in [-1, 1] and the task, and asks for one of two actions; a network learns the rewards. After
every consolidation: how many experiences of each task are in which phase, their c, and what the network and the stored
anchors say at one state of the first task.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.harness.results import Result, Setting
from crystalrl import Batch, CrystalMemory, Evaluation, Transition, UniformMemory
from crystalrl.losses import advantages, anchor_loss
from crystalrl.memory import ReplayMemory

STAGE, SLOTS, BATCH, WAIT = 5_000, 800, 64, 200
"""Steps of a stage, slots, batch, steps before learning begins."""
TITLES = ("task A", "task B", "task A, redefined")
SIGN = 0.3
"""How strongly the observation shows the task."""
AT = 0.7
"""The state of task A at which outputs are shown."""
COLOURS = {"liquid": "#4e9fd1", "glass": "#9fb8c8", "crystal": "#1f3b57", "A": "#b5473c", "B": "#2e7d4f"}


def reward_of(x: Tensor, stage: Tensor | int, action: Tensor) -> Tensor:
    """Task A rewards action 0 where x > 0, task B the other; A redefined is A with the signs exchanged.

    The mean over both actions is 0, so the reward of an action is also its advantage.
    """
    sign = torch.as_tensor([1.0, -1.0, -1.0])[stage]
    return sign * torch.sin(2 * x) * (1 - 2 * action)


def seen(x: Tensor, stage: int) -> Tensor:
    """The observation: x, and a weak sign of the task (the redefined task looks like the first)."""
    return torch.stack([x, torch.tensor(-SIGN if stage % 2 else SIGN)])


class Life:
    """A network that learns with a memory."""

    def __init__(self, memory: ReplayMemory) -> None:
        torch.manual_seed(0)
        self.memory = memory
        self.network = nn.Sequential(nn.Linear(2, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 2))
        self.optimizer = torch.optim.Adam(self.network.parameters(), lr=1e-3)

    def error(self, batch: Batch) -> tuple[Tensor, Tensor]:
        q = self.network(batch.obs)
        return q, batch.reward - q.gather(1, batch.action[:, None])[:, 0]

    @torch.no_grad()
    def evaluate(self, batch: Batch) -> Evaluation:
        q, error = self.error(batch)
        return Evaluation(error, {"advantage": advantages(q)})

    def learn(self) -> None:
        batch = self.memory.sample(BATCH)
        q, error = self.error(batch)
        loss = (batch.weight * error**2).mean()
        if batch.anchor is not None:
            loss = loss + anchor_loss(advantages(q), batch.anchor["advantage"])
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.memory.update(batch, error.detach())

    @torch.no_grad()
    def output(self) -> float:
        """Advantage of action 0 at the state that is shown."""
        return round(float(advantages(self.network(seen(torch.tensor(AT), 0)))[0]), 4)


def live(memory: ReplayMemory, stage_steps: int) -> Iterator[tuple[int, Life]]:
    """Learn all stages; yields (step, life) every 100 steps."""
    life, draws = Life(memory), torch.Generator().manual_seed(1)
    for step in range(len(TITLES) * stage_steps):
        stage = step // stage_steps
        x, action = 2 * torch.rand((), generator=draws) - 1, int(torch.randint(2, (), generator=draws))
        obs = seen(x, stage)
        memory.add(Transition(obs, action, float(reward_of(x, stage, torch.tensor(action))), obs, True))
        if step >= WAIT:
            if step % 2:
                life.learn()
            if memory.due:
                memory.consolidate(life.evaluate)
        if step % 100 == 99:
            yield step + 1, life


def phases_of(memory: CrystalMemory) -> Result:
    """Experiences in each phase, and crystals of each task."""
    held = memory.experiences()
    task, phase = (held["obs"][:, 1] < 0).long(), held["phase"]
    counts = {name: int((phase == number).sum()) for number, name in enumerate(("liquid", "glass", "crystal"), 1)}
    crystals = {name: int(((task == number) & (phase == 3)).sum()) for number, name in enumerate("AB")}
    return {**counts, **{f"crystals {name}": count for name, count in crystals.items()}}


def anchor_at(memory: CrystalMemory) -> Result:
    """Mean anchor of action 0 of the five glass and crystal experiences of task A nearest to the state shown."""
    held = memory.experiences()
    solid = (held["obs"][:, 1] > 0) & (held["phase"] > 1)
    distance = (held["obs"][:, 0] - AT).abs().masked_fill(~solid, torch.inf)
    nearest = distance.argsort()[: min(5, int(solid.sum()))]
    target = memory.anchors["advantage"][0, held["index"][nearest], 0]
    return {"anchor": round(float(target.mean()), 4) if len(nearest) else None}


def measure(setting: Setting) -> Iterator[Result]:
    """The life of a crystal memory, and of a uniform one with as many slots."""
    steps = 600 if setting.quick else STAGE
    memory = CrystalMemory(SLOTS, obs=(2,), action=2, anchor={"advantage": (2,)}, gamma=0.0, seed=0)
    rows = [
        {"step": step, "output": life.output(), **phases_of(memory), **anchor_at(memory)}
        for step, life in live(memory, steps)
    ]
    result: Result = {"stage": steps, "slots": SLOTS, "crystal": rows}
    yield result
    plain = UniformMemory(SLOTS, obs=(2,), action=2, gamma=0.0, seed=0)
    result["uniform"] = [{"step": step, "output": life.output()} for step, life in live(plain, steps)]
    yield result


def _axes(result: Result, height: float = 2.6) -> tuple[Any, Any]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.4, height), layout="constrained")
    axis = figure.subplots()
    for number, title in enumerate(TITLES):
        axis.axvline(number * result["stage"], color="#999999", linewidth=0.8, linestyle=":")
        middle = (number + 0.5) * result["stage"]
        axis.text(middle, 1.02, title, transform=axis.get_xaxis_transform(), ha="center", fontsize=8)
    axis.set_xlim(0, len(TITLES) * result["stage"])
    axis.set_xlabel("environment steps", fontsize=8)
    axis.tick_params(labelsize=8)
    return figure, axis


def _save(figure: Any, path: Path) -> None:
    import matplotlib

    path.parent.mkdir(parents=True, exist_ok=True)
    with matplotlib.rc_context({"svg.hashsalt": "crystalrl", "svg.fonttype": "none"}):
        figure.savefig(path, metadata={"Date": None})


def _column(rows: list[Result], name: str) -> list[float]:
    return [float("nan") if row[name] is None else row[name] for row in rows]


def draw_phases(result: Result, path: Path) -> None:
    """Experiences in each phase, stacked."""
    figure, axis = _axes(result)
    rows, names = result["crystal"], ("crystal", "glass", "liquid")
    parts = [_column(rows, name) for name in names]
    axis.stackplot(_column(rows, "step"), *parts, labels=names, colors=[COLOURS[name] for name in names])
    axis.set_ylabel("experiences", fontsize=8)
    axis.legend(fontsize=8, loc="center right", reverse=True)
    _save(figure, path)


def draw_anchors(result: Result, path: Path) -> None:
    """The advantage of action 0 at one state of task A: with the memory, with uniform replay, and the stored anchor."""
    figure, axis = _axes(result)
    steps = _column(result["crystal"], "step")
    at, last = torch.tensor(AT), len(TITLES) * result["stage"]
    for stage, (begin, end) in {0: (0, 2 * result["stage"]), 2: (2 * result["stage"], last)}.items():
        truth = float(reward_of(at, stage, torch.tensor(0)))
        axis.plot(
            [begin, end], [truth] * 2, color="#bbbbbb", linewidth=6, alpha=0.6, label="true" if not stage else None
        )
    axis.plot(steps, _column(result["uniform"], "output"), color=COLOURS["A"], label="network, uniform replay", lw=1)
    axis.plot(
        steps, _column(result["crystal"], "output"), color=COLOURS["crystal"], label="network, crystal memory", lw=1
    )
    axis.plot(
        steps, _column(result["crystal"], "anchor"), color=COLOURS["liquid"], label="stored anchors", ls="--", lw=1.2
    )
    axis.set_ylabel("advantage at a state of A", fontsize=8)
    axis.legend(fontsize=7, loc="lower left")
    _save(figure, path)


def draw_melting(result: Result, path: Path) -> None:
    """Crystals of both tasks."""
    figure, axis = _axes(result)
    steps = _column(result["crystal"], "step")
    for name in "AB":
        axis.plot(
            steps, _column(result["crystal"], f"crystals {name}"), color=COLOURS[name], label=f"crystals of task {name}"
        )
    axis.set_ylabel("experiences", fontsize=8)
    axis.set_ylim(bottom=0)
    axis.legend(fontsize=8, loc="upper left")
    _save(figure, path)


FIGURES = {
    "figures/phases.svg": draw_phases,
    "figures/anchors.svg": draw_anchors,
    "figures/melting.svg": draw_melting,
}


def block(result: Result) -> str:
    """What the pictures show, in numbers."""
    rows, stage = result["crystal"], result["stage"]
    at = {row["step"]: row for row in rows}
    end = max(at)
    dip = min(row["crystals A"] for row in rows if row["step"] > 2 * stage)
    kept = {name: at[2 * stage][f"crystals {name}"] for name in "AB"}
    return (
        f"Crystals when A is redefined: {kept['A']} of A and {kept['B']} of B. Those of A fall to {dip}; at the end "
        f"there are {at[end]['crystals A']} of A, formed since, and {at[end]['crystals B']} of B."
    )
