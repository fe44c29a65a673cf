"""The hooks of a method; without one of its own, a method changes nothing."""

from __future__ import annotations

import torch

from crystalrl.agents import Agent
from crystalrl.methods import Method
from crystalrl.study.plan import plan
from crystalrl.study.run import Trainer, run
from crystalrl.study.spec import RunSpec
from crystalrl.types import Memory
from tests.agents.batches import batch, dqn
from tests.experience import assert_same_state


def test_updates_with_the_base_class_are_those_without_a_method() -> None:
    with_it, without, method = dqn(), dqn(), Method()
    for _ in range(5):
        drawn = batch(discrete=True)
        assert method.augment(drawn) is drawn
        with_it.update(method.augment(drawn), method)
        without.update(drawn)
    assert_same_state(with_it.state_dict(), without.state_dict())
    assert method.penalty("q", with_it.theta) is None
    assert (method.tensors(), method.nbytes) == ({}, 0)


class Diary(Method):
    """Writes down the calls, and adds a penalty."""

    def __init__(self) -> None:
        self.tasks: list[tuple[str, int]] = []
        self.slots: list[torch.Tensor] = []
        self.batches = self.penalties = self.gradients = self.acts = self.views = 0

    def task_start(self, agent: Agent, memory: Memory, task: int) -> None:
        self.tasks.append(("start", task))

    def task_end(self, agent: Agent, memory: Memory, task: int) -> None:
        self.tasks.append(("end", task))

    def stored(self, slots: torch.Tensor) -> None:
        self.slots.append(slots.clone())

    def augment(self, batch):
        self.batches += 1
        return batch

    def edit_gradients(self, agent: Agent, gradients: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        self.gradients += 1
        assert {name: g.shape for name, g in gradients.items()} == {"q": agent.theta.shape}
        return gradients

    def act(self, agent, obs, epsilon, context):
        self.acts += 1
        return super().act(agent, obs, epsilon, context)

    def viewing(self, agent, obs, context):
        self.views += 1
        return super().viewing(agent, obs, context)

    def stages(self, schedule: torch.Tensor, task: int, envs: int) -> torch.Tensor:
        self.tasks.append(("play", task))
        return super().stages(schedule, task, envs)

    def penalty(self, part: str, theta: torch.Tensor) -> torch.Tensor:
        self.penalties += 1
        return theta.square().sum(-1)


def test_a_run_calls_every_hook_in_its_order() -> None:
    fields = {"steps": 160, "capacity": 512, "batch": 16, "episodes": 1, "points": 1, "envs": 4, "seeds": (0, 1)}
    (group,) = plan({"row": RunSpec("nav-2", **fields)})
    trainer = Trainer(group, torch.device("cpu"))
    trainer.method = diary = Diary()
    list(run(group, "cpu", trainer))
    assert diary.tasks == [(what, task) for task in (0, 1) for what in ("play", "start", "end")]
    written = torch.cat(diary.slots, dim=1)
    assert written.shape == (2, 2 * 160)  # every step of both tasks, in both lanes
    assert all(sorted(lane) == list(range(2 * 160)) for lane in written.tolist())
    assert diary.batches == diary.penalties == diary.gradients > 0
    assert diary.acts == 2 * 160 // 4
    assert diary.views > 0
