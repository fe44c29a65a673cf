"""Classic control and MinAtar: what varies between tasks, what is padded, what a score means."""

from dataclasses import replace

import gymnasium
import numpy as np
import pytest
import torch

from crystalrl.study.plan import stage_tasks
from crystalrl.study.registry import check_suite
from crystalrl.suites import classic
from crystalrl.suites.base import every_stage
from crystalrl.suites.classic import FAMILIES, GAMES, suite
from crystalrl.suites.gym import GymSuite, Sizes, Task
from crystalrl.suites.worker import make, reset_seed

ALL = [*FAMILIES, *(f"{name}-3" for name in FAMILIES), *classic.MIXED, "minatar-5", "minatar-breakout"]


def random_action(made: GymSuite, lanes: int, envs: int, random: torch.Generator) -> torch.Tensor:
    if isinstance(made.action, int):
        return torch.randint(made.action, (lanes, envs), generator=random)
    return 2 * torch.rand(lanes, envs, *made.action, generator=random) - 1


def environment(world, row: int = 0):
    """The environment of a row, without its wrappers."""
    return world.pool._slots.now[row][0].unwrapped


@pytest.mark.parametrize("name", ALL)
def test_every_suite_has_the_shapes_and_tasks_it_declares(name: str) -> None:
    check_suite(name)
    made = suite(name, [0, 1])
    assert made.tasks == stage_tasks(name)
    world, random = made.world(2), torch.Generator().manual_seed(0)
    for stage in made.tasks:
        world.reset(torch.full((2,), stage))
        for _ in range(30):
            step = world.step(random_action(made, 2, 2, random))
            assert step.next_obs.shape == (2, 2, *made.obs)
            assert step.next_obs.dtype == made.obs_dtype
            assert (step.context is None) == (len(made.tasks) == 1)
            if step.context is not None:
                assert (step.context == stage).all()


def test_a_family_is_gymnasium_s_environment_with_its_own_seeds() -> None:
    made = suite("pendulum", [5])
    world = made.world(1)
    world.reset(torch.zeros(1, dtype=torch.int64))
    twin = gymnasium.make("Pendulum-v1")
    base = world.pool._requests[0]["seed"]
    obs, _ = twin.reset(seed=reset_seed(base, 0))
    random = np.random.default_rng(0)
    for _ in range(450):
        np.testing.assert_array_equal(world.obs[0, 0], obs)
        action = random.uniform(-1, 1, 1).astype(np.float32)
        step = world.step(torch.from_numpy(action)[None, None])
        obs, reward, _, truncated, _ = twin.step(-2 + (action + 1) / 2 * 4)
        np.testing.assert_array_equal(step.next_obs[0, 0], obs)
        assert float(step.reward) == np.float32(reward)
        assert bool(step.truncated) == truncated
        if truncated:
            obs, _ = twin.reset(seed=reset_seed(base, int(world.pool.arrays["episode"][0])))


def test_tasks_differ_in_physics_the_first_is_unchanged_and_none_depends_on_their_number() -> None:
    few, many = suite("pendulum-2", [3, 4]), suite("pendulum-5", [4])
    assert few.stages[1] == many.stages[0][:2]
    assert few.stages[0][1].physics != few.stages[1][1].physics
    world = few.world(1)
    world.reset(torch.tensor([0, 0]))
    assert [environment(world, row).g for row in range(2)] == [10.0, 10.0]
    world.reset(torch.tensor([1, 1]))
    for lane in range(2):
        drawn = few.stages[lane][1].physics
        assert {name: getattr(environment(world, lane), name) for name in drawn} == drawn
        assert all(0.8 <= drawn[name] / value <= 1.2 for name, value in FAMILIES["pendulum"].physics.items())
    world.reset(torch.tensor([0, 0]))
    assert environment(world).g == 10.0


@pytest.mark.parametrize("name", ["cartpole-2", "pendulum-2"])
def test_every_second_task_has_mirrored_actions(name: str) -> None:
    made = suite(name, [0])
    mirrored = made.stages[0][1]
    plain = GymSuite([[mirrored, replace(mirrored, flip=False)]], made.sizes, [0])
    pushed = torch.zeros(1, 1, dtype=torch.int64) if isinstance(made.action, int) else torch.full((1, 1, 1), -0.7)
    opposite = 1 - pushed if isinstance(made.action, int) else -pushed
    seen = []
    for stage, action in ((0, pushed), (1, opposite), (1, pushed)):
        world = plain.world(1)
        world.stage.fill_(stage)
        request = {**world._request(0), "seed": 7}
        world.pool.begin([request])
        seen.append(world.step(action).next_obs[0, 0, : made.sizes.obs[0]])
    assert torch.equal(seen[0], seen[1])
    assert not torch.equal(seen[0], seen[2])


def test_smaller_tasks_are_padded_and_surplus_actions_wrap_around() -> None:
    made = suite("classic-discrete", [0])
    assert (made.sizes.obs, made.action, made.obs) == ((6,), 3, (8,))
    world = made.world(1)
    world.reset(torch.tensor([1]))
    assert world.obs[0, 0, :6].count_nonzero() == 6
    world.reset(torch.tensor([0]))
    assert world.obs[0, 0, 4:].tolist() == [0, 0, 1, 0]
    first = world.step(torch.tensor([[2]])).next_obs
    world.reset(torch.tensor([0]))
    assert torch.equal(world.step(torch.tensor([[0]])).next_obs, first)


def test_the_task_id_follows_vector_observations_unless_it_is_hidden() -> None:
    shown, hidden = suite("cartpole-3", [0]), suite("cartpole-3-hidden", [0])
    assert (shown.obs, hidden.obs, hidden.context) == ((7,), (4,), False)
    worlds = [made.world(1) for made in (shown, hidden)]
    for world in worlds:
        world.reset(torch.tensor([1]))
    assert torch.equal(worlds[0].obs[..., :4], worlds[1].obs)
    assert worlds[0].obs[0, 0, 4:].tolist() == [0, 1, 0]
    assert worlds[1].context is None


def test_games_fill_the_first_channels_and_are_reproducible_from_their_seed() -> None:
    made = suite("minatar-5", [0])
    world, random = made.world(1), torch.Generator().manual_seed(0)
    for stage, game in enumerate(GAMES):
        channels = make({"make": f"minatar:{game}", "options": {}}).observation_shape[2]
        tracks = []
        for _ in range(2):
            random.manual_seed(stage)
            world.reset(torch.tensor([stage]))
            steps = [world.step(random_action(made, 1, 1, random)) for _ in range(150)]
            tracks.append(torch.stack([step.next_obs for step in steps]))
        assert torch.equal(*tracks)
        assert tracks[0][..., :channels].any()
        assert not tracks[0][..., channels:].any()


def still(obs: torch.Tensor, context: torch.Tensor | None) -> torch.Tensor:
    return torch.zeros(*obs.shape[:2], dtype=torch.int64)


def test_scores_are_returns_scaled_by_the_task_or_successes() -> None:
    counting = "tests.suites.bad_environments:Bad"
    options = {"how": "never", "at": 0}
    tasks = [
        Task("return", counting, options),
        Task("scaled", counting, {**options, "length": 6}, low=2.0, high=4.0),
        Task("success", counting, options, success=True),
    ]
    made = GymSuite([tasks, tasks], Sizes((2,), 2), [0, 1])
    evaluator, stages = made.evaluator(3), every_stage(made, 2, "cpu")
    assert evaluator.score(still, stages).tolist() == [[10.0, 2.0, 0.0]] * 2
    assert evaluator.score(lambda obs, context: 1 + still(obs, context), stages)[:, 2].tolist() == [1.0, 1.0]
    mixed = torch.tensor([[2, 1], [0, 2]])
    assert evaluator.score(still, mixed).tolist() == [[0.0, 2.0], [10.0, 0.0]]


def test_a_score_is_reproducible_and_independent_of_other_lanes() -> None:
    made, alone = suite("cartpole-2", [3, 4]), suite("cartpole-2", [4])
    evaluator = made.evaluator(5)
    scores = [evaluator.score(still, every_stage(made, 2, "cpu")) for _ in range(2)]
    assert torch.equal(*scores)
    assert torch.equal(scores[0][1:], alone.evaluator(5).score(still, every_stage(alone, 1, "cpu")))


def test_stages_played_in_parallel_score_the_same_as_in_sequence() -> None:
    """Episodes end at different times; the policy, which has no state, is called only for stages that still run."""

    def leaning(obs: torch.Tensor, context: torch.Tensor | None) -> torch.Tensor:
        asked.append(obs.shape[1])
        assert context is not None
        return ((obs[..., 2] + 0.3 * obs[..., 3] * (context % 3)) > 0).long()

    made, asked = suite("cartpole-4", [3, 4, 5]), []
    stages = every_stage(made, 3, "cpu")
    together = made.evaluator(5).score(leaning, stages)
    assert sorted(set(asked), reverse=True) == list(dict.fromkeys(asked))  # fewer and fewer
    assert min(asked) < 20
    assert together.unique().numel() > 8
    one = made.evaluator(5)
    assert torch.equal(together, torch.cat([one.score(leaning, column[:, None]) for column in stages.unbind(1)], 1))


@pytest.mark.parametrize("name", ["cartpole-0", "cartpol", "pendulum-3-shown", "minatar-6", "minatar-pong", "gym:"])
def test_suites_that_do_not_exist_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match=r"^suite: wanted"):
        check_suite(name)


@pytest.mark.parametrize("name", [*(f"{family}-1" for family in FAMILIES), "minatar-5"])
def test_a_random_policy_scores_about_zero(name: str) -> None:
    made, random = suite(name, [0]), torch.Generator().manual_seed(0)
    stages = torch.tensor([[0, 1, 3, 4] if name == "minatar-5" else [0]])  # Freeway is long, and random play scores 0
    score = made.evaluator(20).score(lambda obs, context: random_action(made, *obs.shape[:2], random), stages)
    assert score.abs().max() < 0.15


def test_one_number_controls_every_task_of_classic() -> None:
    made = suite("classic", [0])
    assert (made.sizes.obs, made.action) == ((6,), (1,))
    world = made.world(1)
    for stage, count in ((0, 2), (1, 3)):  # CartPole and Acrobot have discrete actions
        world.reset(torch.tensor([stage]))
        slots = world.pool._slots
        numbers = (np.arange(12, dtype=np.float32) + 0.5) / 6 - 1
        meant = [slots._native(0, np.array([number])) for number in [-1.0, *numbers, 1.0]]
        assert meant == [0, *np.repeat(np.arange(count), 12 // count), count - 1]


def test_any_gymnasium_environment_is_a_suite() -> None:
    made = suite("gym:Acrobot-v1", [3])
    assert (made.obs, made.action, made.tasks) == ((6,), 3, (0,))
    world, family = made.world(1), suite("acrobot", [3]).world(1)
    for each in (world, family):
        each.reset(torch.zeros(1, dtype=torch.int64))
    for action in torch.randint(3, (40, 1, 1), generator=torch.Generator().manual_seed(0)):
        assert torch.equal(world.step(action).next_obs, family.step(action).next_obs)
    with pytest.raises(ValueError, match="got 'gym:HalfCheeta-v5'"):
        check_suite("gym:HalfCheeta-v5")
