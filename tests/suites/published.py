"""What every published benchmark must do, with its real package at a tiny budget."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from crystalrl.study.plan import Group, plan
from crystalrl.study.run import Progress, Scored, Trainer, run
from crystalrl.study.spec import RunSpec
from crystalrl.suites.benchmarks import benchmark
from crystalrl.suites.gym import GymSuite
from crystalrl.suites.sizes import sizes_of
from crystalrl.suites.tasks import Sequence as TaskSequence
from tests.suites.policies import random_action

TINY: dict[str, Any] = {
    "steps": 48,
    "capacity": 64,
    "batch": 8,
    "envs": 2,
    "warmup": 16,
    "episodes": 1,
    "points": 1,
    "agent_params": {"width": 16, "depth": 1},
}


def shortened(name: str, stages: Sequence[int], **options: int) -> TaskSequence:
    """Some tasks of a benchmark with shorter episodes."""
    found = benchmark(name)
    assert found is not None
    tasks = [found.tasks.tasks[stage] for stage in stages]
    return TaskSequence(tuple(replace(task, options={**task.options, **options}) for task in tasks))


def assert_declared_sizes(name: str, stages: Sequence[int]) -> None:
    """The environments of some stages have the sizes that the benchmark declares, or smaller ones."""
    found = benchmark(name)
    assert found is not None
    for stage in stages:
        own = sizes_of(found.tasks.tasks[stage])
        assert all(a <= b for a, b in zip(own.obs, found.sizes.obs, strict=True))
        assert (own.obs_dtype, own.stack) == (found.sizes.obs_dtype, found.sizes.stack)
        if isinstance(own.action, int):
            assert own.action == found.sizes.action
        else:
            assert own.action[0] <= found.sizes.action[0]


def assert_steps(name: str, stages: Sequence[int], steps: int = 5) -> None:
    """Random actions in some stages give finite observations of the declared shape; most differ between seeds."""
    found = benchmark(name)
    assert found is not None
    made = GymSuite([found.tasks.tasks] * 2, found.sizes, [0, 1], ids=found.tasks.ids)
    world, random, different = made.world(1), torch.Generator().manual_seed(0), []
    for stage in stages:
        world.reset(torch.full((2,), stage))
        seen = [world.step(random_action(made, 2, 1, random)) for _ in range(steps)]
        assert world.incidents == []
        assert seen[-1].next_obs.shape == (2, 1, *made.obs)
        assert torch.isfinite(seen[-1].next_obs.float()).all()
        different.append(not torch.equal(world.obs[0], world.obs[1]))
    assert sum(different) > len(different) / 2  # some games begin with a fixed scene


def group_of(suite: str | TaskSequence, **settings: Any) -> Group:
    (group,) = plan({"": RunSpec(suite=suite, **{**TINY, **settings})})
    return group


def scores(group: Group) -> list[torch.Tensor]:
    return [event.score for event in run(group) if isinstance(event, Scored)]


def assert_continues(group: Group, at: int) -> None:
    """A run that is interrupted after `at` steps goes on with the same weights and ends with the same scores."""
    whole, state = Trainer(group, torch.device("cpu")), None
    expected = []
    for event in run(group, trainer=whole):
        if isinstance(event, Progress) and event.done == at:
            state = whole.state()
        if isinstance(event, Scored) and state is not None:
            expected.append(event.score)
    assert state is not None
    again = Trainer(group, torch.device("cpu"))
    again.load(state)
    found = [event.score for event in run(group, trainer=again) if isinstance(event, Scored)]
    assert all(torch.equal(a, b) for a, b in zip(expected, found, strict=True))
    assert_equal(whole.agent.state_dict(), again.agent.state_dict())
    assert_equal(whole.memory.state_dict(), again.memory.state_dict())


def assert_equal(a: Mapping[str, torch.Tensor], b: Mapping[str, torch.Tensor]) -> None:
    assert set(a) == set(b)
    assert [name for name in a if not torch.equal(a[name], b[name])] == []
