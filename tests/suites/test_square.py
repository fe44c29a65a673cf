"""The unit square: steps against a naive environment, scores of known policies, and names."""

import math

import pytest
import torch

from crystalrl.random import Stream, Streams
from crystalrl.suites.base import every_stage, load_world, world_state
from crystalrl.suites.drift import Drift
from crystalrl.suites.moves import MOVES
from crystalrl.suites.nav import Nav
from crystalrl.suites.square import SquareName
from tests.suites.policies import knowing, random_action

SEEDS, ENVS, STEPS = [4, 9, 2], 5, 2_000
NAMES = ["nav-3", "nav-3-hidden", "nav-2-redefined", "reach-3", "reach-3-hidden", "reach-2-redefined", "drift-3"]


def made(name: str, seeds: list[int]) -> Nav | Drift:
    return Drift(name, seeds, "cpu", STEPS) if name.startswith("drift") else Nav(name, seeds)


class NaiveSquare:
    """One environment in plain Python, for numbers that were drawn elsewhere."""

    def __init__(self, suite: Nav | Drift, lane: int, stage: int) -> None:
        self.suite, self.lane, self.stage, self.age, self.steps = suite, lane, stage, 0, 0
        self.position = (0.0, 0.0)

    @property
    def path(self) -> float:
        """Where on its path a drifting suite is."""
        return self.stage + self.steps / (STEPS // ENVS)

    def angle(self, which: int) -> float:
        frequency, start = (float(table[self.lane, which]) for table in (self.suite.frequency, self.suite.start))
        return 2 * math.pi * (frequency * self.path + start)

    def goal(self) -> tuple[float, float]:
        if isinstance(self.suite, Nav):
            x, y = self.suite.goal[self.lane, self.stage].tolist()
            return x, y
        return 0.5 + 0.4 * math.sin(self.angle(0)), 0.5 + 0.4 * math.sin(self.angle(1))

    def move(self, action: torch.Tensor) -> complex:
        """The movement as a complex number; to turn is to multiply."""
        if isinstance(self.suite, Drift):
            return complex(*MOVES[int(action)]) * complex(math.cos(self.angle(2)), math.sin(self.angle(2)))
        if self.suite.name.family == "nav":
            return complex(*MOVES[int(self.suite.mapping.permutation[self.lane, self.stage, int(action)])])
        cosine, sine, factor = self.suite.mapping.mapping[self.lane, self.stage].tolist()
        given = complex(*action.tolist())
        return (given if factor > 0 else given.conjugate()) * complex(cosine, sine)

    def sign(self) -> list[float]:
        if isinstance(self.suite, Drift):
            near = [self.path - j for j in range(self.suite.name.count + 1)]
            return [math.cos(math.pi / 2 * d) ** 2 if abs(d) < 1 else 0.0 for d in near]
        if self.suite.context:
            return [float(self.suite.tasks[self.stage] == task) for task in range(self.suite.name.count)]
        return [4 * x - 2 for x in self.suite.landmark[self.lane, self.stage].tolist()]

    def obs(self) -> list[float]:
        return [4 * self.position[0] - 2, 4 * self.position[1] - 2, *self.sign()]

    def step(self, action: torch.Tensor, noise: list[float]) -> tuple[list[float], float, bool, bool]:
        """Observation, reward, whether the goal was reached, whether time was up."""
        move, goal = self.move(action), self.goal()
        moved = (x + 0.08 * d + 0.01 * n for x, d, n in zip(self.position, (move.real, move.imag), noise, strict=True))
        self.position = tuple(min(max(x, 0.0), 1.0) for x in moved)
        reached = math.dist(self.position, goal) < 0.1
        self.age, self.steps = self.age + 1, self.steps + 1
        return self.obs(), float(reached) - 0.02, reached, self.age == 40 and not reached


@pytest.mark.parametrize("name", NAMES)
def test_steps_are_those_of_a_naive_environment_each_alone(name: str) -> None:
    suite, drawn = made(name, SEEDS), Streams(SEEDS)
    world, random = suite.world(ENVS), torch.Generator().manual_seed(0)
    stage = torch.tensor([0, 1, len(suite.tasks) - 1])
    world.reset(stage)
    start = drawn.uniform(Stream.ENVIRONMENT, 2 * ENVS).view(3, ENVS, 2)
    alone = [[NaiveSquare(suite, lane, int(stage[lane])) for _ in range(ENVS)] for lane in range(3)]
    ends = 0
    ended = torch.ones(3, ENVS, dtype=torch.bool)
    for _ in range(130):
        for lane, env in ((lane, env) for lane in range(3) for env in range(ENVS)):
            if ended[lane, env]:
                alone[lane][env].position, alone[lane][env].age = tuple(start[lane, env].tolist()), 0
        expected = torch.tensor([[env.obs() for env in row] for row in alone])
        torch.testing.assert_close(world.obs, expected, atol=1e-4, rtol=0)
        noise = drawn.normal(Stream.ENVIRONMENT, 2 * ENVS).view(3, ENVS, 2)
        start = drawn.uniform(Stream.ENVIRONMENT, 2 * ENVS).view(3, ENVS, 2)
        action = random_action(suite, 3, ENVS, random)
        given = world.step(action)
        told = [
            [env.step(action[i, j], noise[i, j].tolist()) for j, env in enumerate(row)] for i, row in enumerate(alone)
        ]
        after, reward, reached, late = (torch.tensor([[each[k] for each in row] for row in told]) for k in range(4))
        torch.testing.assert_close(given.next_obs, after, atol=1e-4, rtol=0)
        torch.testing.assert_close(given.reward, reward)
        assert torch.equal(given.terminated, reached)
        assert torch.equal(given.truncated, late)
        ended = reached | late
        ends += int(ended.sum())
    assert ends > 45  # episodes of both kinds, on all lanes


@pytest.mark.parametrize("name", ["nav-1", "nav-3", "reach-1", "reach-3", "drift-1", "drift-3"])
def test_a_policy_that_knows_the_task_always_succeeds_and_a_random_one_rarely(name: str) -> None:
    """Random actions find the goal in a fifth of the episodes."""
    suite, random = made(name, list(range(8))), torch.Generator().manual_seed(0)
    evaluator, stages = suite.evaluator(32), every_stage(suite, 8, "cpu")
    assert evaluator.score(knowing(suite, suite.action), stages).min() >= 0.99
    blind = evaluator.score(lambda obs, context: random_action(suite, *obs.shape[:2], random), stages)
    assert blind.mean() < 0.27


@pytest.mark.parametrize(("name", "stage"), [("nav-6", 0), ("reach-6", 0), ("drift-6", 0)])
def test_the_policy_of_one_stage_fails_in_the_others(name: str, stage: int) -> None:
    suite = made(name, list(range(16)))
    evaluator, stages = suite.evaluator(16), every_stage(suite, 16, "cpu")
    tested = stage + evaluator.ahead
    score = evaluator.score(knowing(suite, suite.action, at=tested), stages).mean(0)
    assert score[stage] > 0.99
    others = score[[k for k in range(6) if k != stage]]
    assert others.mean() < 0.35
    assert others.max() < 0.5


@pytest.mark.parametrize("name", ["reach-2", "drift-2"])
def test_a_world_continues_exactly_from_its_saved_state(name: str) -> None:
    suite, random = made(name, [3, 4]), torch.Generator().manual_seed(0)
    one, two = suite.world(3), suite.world(3)
    one.reset(torch.tensor([0, 1]))
    for _ in range(55):
        one.step(random_action(suite, 2, 3, random))
    state = world_state(one, plain=True, between=False)
    assert state is not None
    load_world(two, True, state)
    for _ in range(45):
        action = random_action(suite, 2, 3, random)
        assert torch.equal(one.step(action).next_obs, two.step(action).next_obs)
        assert torch.equal(one.obs, two.obs)


@pytest.mark.parametrize("name", ["reach-3", "drift-3"])
def test_a_lane_among_others_is_that_seed_alone_bit_for_bit(name: str) -> None:
    together, alone = made(name, [7, 5, 11]).world(3), made(name, [5]).world(3)
    random = torch.Generator().manual_seed(0)
    for world in (together, alone):
        world.reset(torch.ones(len(world.stage), dtype=torch.int64))
    for _ in range(60):
        action = random_action(together.tasks, 3, 3, random)
        assert torch.equal(together.step(action).next_obs[1:2], alone.step(action[1:2]).next_obs)


@pytest.mark.parametrize(
    ("name", "tasks"),
    [("reach-2", (0, 1)), ("reach-3-redefined", (0, 1, 2, 0, 1)), ("reach-1-hidden", (0,)), ("drift-3", (0, 1, 2))],
)
def test_a_name_says_which_tasks_there_are(name: str, tasks: tuple[int, ...]) -> None:
    assert SquareName.parse(name).tasks == tasks


@pytest.mark.parametrize(
    "name", ["reach-0", "reach-1-redefined", "reach", "drift-0", "drift-3-hidden", "drift-3-redefined"]
)
def test_names_of_no_suite_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match=r"^suite: wanted .*, got '"):
        SquareName.parse(name)
