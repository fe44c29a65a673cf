"""The state of a world, whatever its kind: what is saved, what is restored, and when it cannot be saved."""

from types import SimpleNamespace

import torch

from crystalrl.random import Stream, Streams
from crystalrl.suites.base import every_stage, load_world, world_state
from crystalrl.suites.classic import suite
from crystalrl.suites.nav import Nav


def test_every_lane_is_evaluated_on_all_stages_in_order() -> None:
    stages = every_stage(Nav("nav-3-redefined", [5, 6]), 2, "cpu")
    assert stages.tolist() == [[0, 1, 2, 3, 4]] * 2
    assert stages.dtype == torch.int64


def test_a_world_of_tensors_continues_exactly_with_its_random_streams() -> None:
    made, actions = Nav("nav-2", [3, 4]), torch.randint(5, (100, 2, 3), generator=torch.Generator().manual_seed(0))
    one, two = made.world(3), made.world(3)
    one.reset(torch.tensor([0, 1]))
    for action in actions[:55]:
        one.step(action)
    state = world_state(one, plain=True, between=False)
    assert state is not None
    load_world(two, True, state)
    for action in actions[55:]:  # long enough for episodes to end, whose starts are drawn
        a, b = one.step(action), two.step(action)
        assert torch.equal(a.next_obs, b.next_obs)
        assert torch.equal(one.obs, two.obs)


def test_a_saved_state_is_a_copy() -> None:
    world = SimpleNamespace(age=torch.zeros(2), name="not a tensor", streams=Streams([1, 2]))
    state = world_state(world, plain=True, between=False)
    assert state is not None
    assert set(state) == {"age", "streams.ticks"}
    before = {name: tensor.clone() for name, tensor in state.items()}
    world.age += 1
    drawn = world.streams.uniform(Stream.ENVIRONMENT, 3)
    assert all(torch.equal(state[name], tensor) for name, tensor in before.items())
    load_world(world, True, state)
    assert world.age.tolist() == [0, 0]
    assert torch.equal(world.streams.uniform(Stream.ENVIRONMENT, 3), drawn)


def test_a_world_with_its_own_way_to_save_itself_uses_it() -> None:
    made = suite("cartpole-2", [0])
    one, two = made.world(2), made.world(2)
    one.reset(torch.tensor([1]))
    one.step(torch.zeros(1, 2, dtype=torch.int64))
    state = world_state(one, plain=False, between=False)
    assert state is not None
    assert state.keys() == one.state_dict().keys()
    load_world(two, False, state)
    assert torch.equal(one.obs, two.obs)


def test_any_other_world_can_be_saved_only_between_two_stages() -> None:
    world = SimpleNamespace(age=torch.ones(2))
    assert world_state(world, plain=False, between=False) is None
    assert world_state(world, plain=False, between=True) == {}
    load_world(world, False, {})
    assert world.age.tolist() == [1, 1]
