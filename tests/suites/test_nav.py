"""Navigation tasks: what a task is, what a redefinition changes, what is hidden."""

import pytest
import torch

from crystalrl.suites.base import every_stage
from crystalrl.suites.moves import MOVES
from crystalrl.suites.nav import Nav
from crystalrl.suites.square import HORIZON, RADIUS, STRIDE
from tests.suites.policies import knowing


def test_a_redefined_task_keeps_its_id_and_its_actions_and_gets_another_goal() -> None:
    suite = Nav("nav-3-redefined", [0, 1])
    assert suite.tasks == (0, 1, 2, 0, 1)
    for again, first in ((3, 0), (4, 1)):
        assert torch.equal(suite.mapping.permutation[:, again], suite.mapping.permutation[:, first])
        assert torch.equal(suite.sign[again], suite.sign[first])
        assert suite.ids[again] == suite.ids[first]
        assert ((suite.goal[:, again] - suite.goal[:, first]).norm(dim=-1) > 0).all()


def test_the_first_pass_of_a_redefined_suite_is_the_plain_suite() -> None:
    plain, redefined = Nav("nav-3", [4, 9]), Nav("nav-3-redefined", [4, 9])
    assert torch.equal(redefined.goal[:, :3], plain.goal)
    assert torch.equal(redefined.mapping.permutation[:, :3], plain.mapping.permutation)


def test_hidden_tasks_show_landmarks_instead_of_an_id_and_carry_no_context() -> None:
    shown, hidden = Nav("nav-3", [0]), Nav("nav-3-hidden", [0])
    assert (shown.obs, hidden.obs) == ((2 + 3,), (2 + 6,))
    assert torch.equal(shown.goal, hidden.goal)
    world = hidden.world(4)
    sights = []
    for stage in range(3):
        world.reset(torch.tensor([stage]))
        landmarks = world.obs[0, :, 2:]
        assert torch.equal(landmarks, landmarks[:1].expand_as(landmarks))
        sights.append(landmarks[0].clone())
        assert world.step(torch.zeros(1, 4, dtype=torch.int64)).context is None
    assert len(torch.stack(sights).unique(dim=0)) == 3


def test_lanes_have_their_own_tasks_which_depend_only_on_the_seed() -> None:
    one, two = Nav("nav-2", [5, 6]), Nav("nav-2", [6])
    assert not torch.equal(one.goal[0], one.goal[1])
    assert torch.equal(one.goal[1], two.goal[0])


def walk_home(suite: Nav, stage: int) -> object:
    """A policy that knows the goal and the permutation."""
    moves = torch.tensor(MOVES)

    def policy(obs: torch.Tensor, context: torch.Tensor | None = None) -> torch.Tensor:
        position = (obs[..., :2] + 2) / 4
        after = position[:, :, None] + STRIDE * moves[suite.mapping.permutation[:, stage]][:, None]
        return (after - suite.goal[:, stage][:, None, None]).norm(dim=-1).argmin(-1)

    return policy


def test_an_optimal_policy_always_reaches_the_goal_and_standing_still_rarely_does() -> None:
    suite = Nav("nav-2", list(range(8)))
    evaluator, stages = suite.evaluator(32), every_stage(suite, 8, "cpu")
    assert evaluator.score(walk_home(suite, 1), stages)[:, 1].mean() > 0.99
    still = (suite.mapping.permutation[:, 1] == 4).int().argmax(-1)
    stand = evaluator.score(lambda obs, context: still[:, None].expand(obs.shape[:2]), stages)
    assert stand[:, 1].mean() < 0.2


def test_a_score_is_reproducible_and_does_not_disturb_training() -> None:
    suite = Nav("nav-2", [0, 1])
    world, evaluator, stages = suite.world(4), suite.evaluator(8), every_stage(suite, 2, "cpu")
    policy = walk_home(suite, 0)
    world.reset(stages[:, 0])
    first = evaluator.score(policy, stages)
    position = world.position.clone()
    assert torch.equal(evaluator.score(policy, stages), first)
    assert torch.equal(world.position, position)


def test_an_episode_terminates_at_the_goal_or_is_truncated_after_forty_steps() -> None:
    suite = Nav("nav-1", [3])
    world = suite.world(16)
    world.reset(torch.tensor([0]))
    policy, seen = walk_home(suite, 0), 0
    for _ in range(HORIZON):
        step = world.step(policy(world.obs))
        position = (step.next_obs[..., :2] + 2) / 4
        near = (position - suite.goal[:, 0]).norm(dim=-1) < RADIUS
        assert torch.equal(near, step.terminated)
        torch.testing.assert_close(step.reward, near.float() - 0.02)
        assert not (step.terminated & step.truncated).any()
        seen += int(step.terminated.sum())
    assert seen >= 16
    still = (suite.mapping.permutation[:, 0] == 4).int().argmax(-1)
    world.reset(torch.tensor([0]))
    ages = [world.step(still[:, None].expand(1, 16)) for _ in range(HORIZON)]
    alive = ~torch.stack([step.terminated for step in ages]).any(0)
    assert torch.equal(ages[-1].truncated[alive], torch.ones_like(ages[-1].truncated[alive]))


@pytest.mark.parametrize("name", ["nav-0", "nav-8-shown", "nav-1-redefined"])
def test_suites_that_do_not_exist_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match=r"^suite: wanted"):
        Nav(name, [0])


def test_reach_has_the_goals_and_landmarks_of_nav_with_vectors_as_actions() -> None:
    nav, reach = Nav("nav-3-hidden", [4, 9]), Nav("reach-3-hidden", [4, 9])
    assert (nav.action, reach.action, reach.obs) == (5, (2,), nav.obs)
    assert torch.equal(nav.goal, reach.goal)
    assert torch.equal(nav.landmark, reach.landmark)
    assert len(reach.mapping.mapping.flatten(0, 1).unique(dim=0)) == 6


def test_a_redefined_reach_task_keeps_its_actions_and_its_old_policy_misses_the_new_goal() -> None:
    seeds = list(range(16))
    suite, plain = Nav("reach-3-redefined", seeds), Nav("reach-3", seeds)
    mapping = suite.mapping.mapping
    assert torch.equal(mapping[:, :3], plain.mapping.mapping)
    assert torch.equal(mapping[:, 3:], mapping[:, :2])
    assert torch.equal(suite.goal[:, :3], plain.goal)
    score = suite.evaluator(16).score(knowing(suite, suite.action, at=0), every_stage(suite, 16, "cpu")).mean(0)
    assert score[0] > 0.99
    assert score[3] < 0.35


def test_hidden_reach_tasks_carry_no_id() -> None:
    world = Nav("reach-2-hidden", [0]).world(4)
    world.reset(torch.tensor([1]))
    assert world.context is None
    assert world.step(torch.zeros(1, 4, 2)).context is None


@pytest.mark.parametrize("name", ["nav-3-goals", "reach-3-goals"])
def test_shown_goals_and_compute_reward_agree_with_the_world(name: str) -> None:
    suite = Nav(name, [3, 4])
    world, space = suite.world(16), suite.goal_space
    world.reset(torch.tensor([0, 2]))
    assert suite.obs == (2 + 3 + 2,)
    torch.testing.assert_close(world.obs[..., space.desired], 4 * suite.goals(world.stage) - 2)
    random, reached = torch.Generator().manual_seed(0), 0
    for _ in range(60):
        box = torch.rand(2, 16, 2, generator=random) * 2 - 1
        action = box if isinstance(suite.action, tuple) else torch.randint(5, (2, 16), generator=random)
        step = world.step(action)
        after = step.next_obs
        reward, terminated = space.compute_reward(after[..., space.achieved], after[..., space.desired], None)
        assert torch.equal(reward, step.reward)
        assert torch.equal(terminated, step.terminated)
        reached += int(terminated.sum())
    assert reached > 5


def test_other_suites_show_no_goal() -> None:
    assert Nav("nav-3", [0]).goal_space is None
    assert Nav("nav-3-goals", [0]).context
