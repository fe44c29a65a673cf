"""Suites of Gymnasium environments: what agents see, what a score means, how a world continues from its state."""

from dataclasses import replace

import pytest
import torch

from crystalrl.suites.base import every_stage
from crystalrl.suites.classic import suite
from crystalrl.suites.gym import GymSuite
from crystalrl.suites.sizes import Sizes
from crystalrl.suites.tasks import Task
from tests.suites.own_environments import ECHO
from tests.suites.policies import still


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


def test_the_task_id_follows_vector_observations_unless_it_is_hidden() -> None:
    shown, hidden = suite("cartpole-3", [0]), suite("cartpole-3-hidden", [0])
    assert (shown.obs, hidden.obs, hidden.context) == ((7,), (4,), False)
    worlds = [made.world(1) for made in (shown, hidden)]
    for world in worlds:
        world.reset(torch.tensor([1]))
    assert torch.equal(worlds[0].obs[..., :4], worlds[1].obs)
    assert worlds[0].obs[0, 0, 4:].tolist() == [0, 1, 0]
    assert worlds[1].context is None


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


def test_a_world_continues_from_its_state_by_replaying_its_episodes() -> None:
    random = torch.Generator().manual_seed(0)
    actions = 2 * torch.rand(260, 2, 3, 1, generator=random) - 1
    one, two = (suite("pendulum-2", [3, 4]).world(3) for _ in range(2))
    one.reset(torch.tensor([1, 0]))
    for action in actions[:230]:  # past the end of the first episode
        one.step(action)
    two.load_state_dict(one.state_dict())
    assert torch.equal(one.obs, two.obs)
    assert torch.equal(one.context, two.context)
    for action in actions[230:]:
        a, b = one.step(action), two.step(action)
        assert torch.equal(a.next_obs, b.next_obs)
        assert torch.equal(a.truncated, b.truncated)


@pytest.mark.parametrize("workers", [0, 2])
def test_a_lane_that_fails_while_it_is_scored_is_reported_and_the_others_are_scored_as_before(workers: int) -> None:
    counting = "tests.suites.bad_environments:Bad"
    good, bad = (Task(how, counting, {"how": how, "at": 3}) for how in ("never", "nan reward"))
    made = GymSuite([[good, good], [good, bad], [good, good]], Sizes((2,), 2), [0, 1, 2], workers=workers)
    evaluator, stages = made.evaluator(2), every_stage(made, 3, "cpu")
    score = evaluator.score(still, stages)
    assert bool(torch.isfinite(score).all())
    assert score[[0, 2]].tolist() == [[10.0, 10.0]] * 2
    (incident,) = evaluator.incidents
    assert (incident.lane, incident.env, incident.task, incident.step) == (1, 2, "nan reward", 3)
    assert incident.fatal
    world = made.world(1)  # the lane has ended here, too
    world.reset(torch.zeros(3, dtype=torch.int64))
    moved = world.step(torch.zeros(3, 1, dtype=torch.int64)).next_obs[:, 0, 0]
    assert moved.tolist() == [1, 0, 1]
    again = GymSuite(made.stages, made.sizes, made.seeds).world(1)
    again.load_state_dict(world.state_dict())
    assert again.suite.lost == {1}
    assert again.step(torch.zeros(3, 1, dtype=torch.int64)).next_obs[:, 0, 0].tolist() == [2, 0, 2]
    before = {name: value for name, value in world.state_dict().items() if name != "failed"}
    GymSuite(made.stages, made.sizes, made.seeds).world(1).load_state_dict(before)  # a state from before


def test_a_task_that_comes_again_has_the_id_and_the_code_of_the_first_time() -> None:
    tasks = [Task(f"{size}", ECHO, {"size": size}) for size in (2, 3, 2)]
    made = GymSuite([tasks], Sizes((3,), 2), [0], ids=(0, 1, 0))
    assert (made.tasks, made.obs) == ((0, 1, 0), (5,))
    world = made.world(1)
    seen = []
    for stage in range(3):
        world.reset(torch.tensor([stage]))
        seen.append((int(world.context), world.obs[0, 0].tolist()))
    assert seen == [(0, [0, 9, 0, 1, 0]), (1, [0, 0, 9, 0, 1]), (0, [0, 9, 0, 1, 0])]


@pytest.mark.parametrize("workers", [0, 1])
def test_padded_observations_and_own_actions_pass_unchanged(workers: int) -> None:
    tasks = [Task("small", ECHO, {"size": 2, "actions": 2}), Task("large", ECHO, {"size": 4, "actions": 5, "start": 3})]
    world = GymSuite([tasks], Sizes((4,), 5), [0], visible=False, workers=workers).world(1)
    for stage, taken, shown in ((0, [0, 1, 0, 1], [0, 1, 0, 1]), (1, [0, 4, 2, 1], [3, 7, 5, 4])):
        world.reset(torch.tensor([stage]))
        for age, (action, own) in enumerate(zip(taken, shown, strict=True), 1):
            after = world.step(torch.tensor([[action]])).next_obs[0, 0].tolist()
            assert after == ([age, own, 0, 0] if stage == 0 else [age, age, age, own])


def test_box_actions_beyond_those_of_a_task_are_ignored() -> None:
    tasks = [Task("two", ECHO, {"box": 2}), Task("three", ECHO, {"box": 3})]
    world = GymSuite([tasks], Sizes((2,), (3,)), [0], visible=False).world(1)
    for stage, wanted in ((0, 4.0 - 2.0), (1, 4.0 - 2.0 + 1.0)):
        world.reset(torch.tensor([stage]))
        assert world.step(torch.tensor([[[1.0, -1.0, 0.0]]])).next_obs[0, 0, -1] == wanted


def test_an_agent_sees_rewards_within_the_clip_of_their_task_and_scores_count_them_whole() -> None:
    tasks = [Task("clipped", ECHO, clip=0.25), Task("whole", ECHO)]
    made = GymSuite([tasks], Sizes((2,), 2), [0])
    world = made.world(2)
    for stage, seen in ((0, 0.25), (1, 1.0)):
        world.reset(torch.tensor([stage]))
        assert world.step(torch.zeros(1, 2, dtype=torch.int64)).reward.tolist() == [[seen, seen]]
    assert made.evaluator(1).score(still, torch.tensor([[0, 1]])).tolist() == [[5.0, 5.0]]


def test_scores_do_not_depend_on_how_many_environments_play_at_once() -> None:
    made = suite("cartpole-5", [0, 1])
    scores = []
    for most in (2048, 16, 7, 1):
        evaluator = made.evaluator(3)
        evaluator.most = most
        scores.append(evaluator.score(still, every_stage(made, 2, "cpu")))
        assert sum(world.envs for world in evaluator.worlds.values()) <= max(most // 2, 3)
    assert all(torch.equal(score, scores[0]) for score in scores)
