"""Drifting tasks: how far they move at most, that they have no boundaries, and where they are scored."""

import math

import pytest
import torch

from crystalrl.suites.base import every_stage
from crystalrl.suites.drift import CODE_SPEED, FAST, GOAL_SPEED, SLOW, TURN_SPEED, Drift
from tests.suites.policies import knowing

SEEDS = list(range(6))


def path(suite: Drift, per_stage: int) -> torch.Tensor:
    """Positions float64[L, P] on the path, as those of P environments."""
    count = suite.name.count
    return torch.linspace(0, count, count * per_stage + 1, dtype=torch.float64).expand(len(suite.seeds), -1)


def test_no_step_moves_goal_directions_or_code_further_than_the_bounds_and_stages_have_no_seam() -> None:
    suite, per_stage = Drift("drift-5", SEEDS, "cpu", 8_000), 1_000
    stage = path(suite, per_stage)
    right = suite.moves(stage, torch.full(stage.shape, 2))
    angle = torch.atan2(right[..., 1], right[..., 0]).double()
    turn = torch.remainder(angle.diff(dim=1) + math.pi, 2 * math.pi) - math.pi
    changes = {
        GOAL_SPEED: suite.goals(stage).diff(dim=1).norm(dim=-1),
        TURN_SPEED: turn.abs(),
        CODE_SPEED: suite.signs(stage).diff(dim=1).abs().amax(-1),
    }
    for bound, change in changes.items():
        assert change.max() <= bound / per_stage + 1e-6
        seam, inside = change[:, per_stage - 1 :: per_stage], change[:, per_stage // 2 :: per_stage]
        assert seam.max() <= 1.5 * max(float(inside.max()), float(change.mean(1).max()))
    assert (turn.abs() >= 2 * math.pi * SLOW / per_stage - 1e-6).all()
    assert (suite.frequency.abs() <= FAST).all()


def test_the_code_tells_every_place_of_the_path_from_every_other() -> None:
    suite = Drift("drift-4", [0], "cpu", 8_000)
    code = suite.signs(path(suite, 50))[0]
    torch.testing.assert_close(code.sum(-1), torch.ones(len(code)))
    distance = torch.cdist(code, code) + torch.eye(len(code))
    assert distance.min() > 1e-3
    assert torch.equal(suite.signs(torch.tensor([[0.0, 3.0]], dtype=torch.float64))[0], torch.eye(5)[[0, 3]])


def test_the_path_of_a_seed_does_not_depend_on_the_number_of_stages_or_on_other_lanes() -> None:
    short, long = Drift("drift-2", [7], "cpu", 800), Drift("drift-9", [3, 7], "cpu", 800)
    stage = path(short, 20)
    assert torch.equal(short.goals(stage), long.goals(stage.expand(2, -1))[1:])


@pytest.mark.parametrize(("steps", "envs"), [(480, 8), (1_003, 4)])
def test_a_stage_of_training_is_one_unit_of_the_path(steps: int, envs: int) -> None:
    world = Drift("drift-3", [0, 1], "cpu", steps).world(envs)
    world.reset(torch.tensor([0, 1]))
    for _ in range(steps // envs):
        world.step(torch.zeros(2, envs, dtype=torch.int64))
    torch.testing.assert_close(world.stage, torch.tensor([[1.0], [2.0]]).double().expand(2, envs))
    assert world.context is None


def test_the_path_moves_on_within_an_episode() -> None:
    world = Drift("drift-2", [0], "cpu", 480).world(4)
    world.reset(torch.tensor([0]))
    given = world.step(torch.full((1, 4), 4))
    assert (given.obs[..., 2] > given.next_obs[..., 2]).all()
    assert (given.obs[..., 3] < given.next_obs[..., 3]).all()


def test_a_stage_is_scored_where_it_ends_and_training_goes_on_undisturbed() -> None:
    suite = Drift("drift-4", SEEDS, "cpu", 800)
    evaluator, world, stages = suite.evaluator(16), suite.world(4), every_stage(suite, len(SEEDS), "cpu")
    world.reset(stages[:, 0])
    before = world.stage.clone()
    for k in range(4):
        score = evaluator.score(knowing(suite, suite.action, at=k + 1.0), stages)
        assert score[:, k].min() > 0.99
        assert score[:, [j for j in range(4) if j != k]].mean() < 0.35
    assert torch.equal(world.stage, before)


def test_other_suites_are_refused() -> None:
    with pytest.raises(ValueError, match=r"^suite: wanted drift-N, got 'nav-3'"):
        Drift("nav-3", [0], "cpu", 100)
