"""Episodes in another library's storage get the boost that a memory with its own storage gives."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from crystalrl import CrystalMemory, CrystalParams, Transition
from crystalrl.memory.crystal.external_episodes import PREFIX, ExternalEpisodes
from crystalrl.memory.storage.external import ExternalArena, storage_options
from crystalrl.memory.storage.header import CheckpointError

ENVS, SLOTS = 3, 60
PARAMS = CrystalParams(boost=True, every=10_000, every_episode=False)


class Library:
    """Arrays of another library, and a memory over them."""

    def __init__(self, params: CrystalParams = PARAMS) -> None:
        like = step(0)
        self.columns = {name: torch.zeros(SLOTS, *x.shape[1:], dtype=x.dtype) for name, x in like.items()}
        arena = ExternalArena(SLOTS, lambda slots: {name: column[slots] for name, column in self.columns.items()})
        self.memory = CrystalMemory(SLOTS, params=params, arena=arena, seed=5, **storage_options(like, 2))

    def store(self, new: dict[str, Tensor], env: Tensor | None) -> None:
        slots = self.memory.reserve_slots(len(new["reward"]))
        for name, column in self.columns.items():
            column[slots] = new[name]
        self.memory.commit(slots, new["terminated"] | new["truncated"], env)


def step(seed: int) -> dict[str, Tensor]:
    """One step of every environment."""
    g = torch.Generator().manual_seed(seed)
    return {
        "obs": torch.randn(ENVS, 2, generator=g),
        "action": torch.randint(2, (ENVS,), generator=g),
        "reward": torch.rand(ENVS, generator=g),
        "next_obs": torch.randn(ENVS, 2, generator=g),
        "terminated": torch.rand(ENVS, generator=g) < 0.1,
        "truncated": torch.rand(ENVS, generator=g) < 0.05,
    }


def own_memory() -> CrystalMemory:
    return CrystalMemory(SLOTS, params=PARAMS, obs=(2,), action=2, envs=ENVS, seed=5)


def test_the_boost_is_that_of_a_memory_with_its_own_storage_and_survives_a_load() -> None:
    library, own = Library(), own_memory()
    ids = torch.tensor([70, 80, 90])
    for seed in range(50):
        new = step(seed)
        if seed == 33:
            assert library.memory.episodes.external.running
            again = Library()
            again.columns = library.columns
            again.memory.load_state_dict(library.memory.state_dict())
            library = again
        library.store(new, ids)
        own.add(Transition(*(new[name] for name in ("obs", "action", "reward", "next_obs", "terminated", "truncated"))))
        torch.testing.assert_close(library.memory.ledger.boost, own.ledger.boost, rtol=1e-6, atol=0)
    assert int((own.ledger.boost > 0.02).sum()) > 20


def test_rows_without_environments_are_one_episode_after_the_other() -> None:
    library = Library()
    new = step(0)
    new["terminated"], new["truncated"] = torch.tensor([False, True, False]), torch.zeros(ENVS, dtype=torch.bool)
    new["reward"] = torch.tensor([1.0, 0.5, 1.0])
    library.store(new, None)
    assert library.memory.ledger.boost[0, :3].tolist() == pytest.approx([0.01495, 0.01495, 0.0])
    (running,) = library.memory.episodes.external.running.values()
    assert (running.steps, running.total, running.members) == (1, 1.0, [(2, 2)])
    library.memory.clear()
    assert not library.memory.episodes.external.running


def test_states_from_before_and_memories_without_the_boost_have_no_running_episodes() -> None:
    library, plain = Library(), Library(replace(PARAMS, boost=False))
    for each in (library, plain):
        each.store(step(0), None)
    state = library.memory.state_dict()
    library.memory.load_state_dict(
        {name: x for name, x in state.items() if "running" not in name and "episode" not in name}
    )
    assert not library.memory.episodes.external.running
    assert plain.memory.episodes.external is None
    assert not any("running" in name for name in plain.memory.state_dict())


def test_episodes_that_never_end_are_forgotten_from_the_oldest_on() -> None:
    library = Library()
    quiet = {
        **step(0),
        "terminated": torch.zeros(ENVS, dtype=torch.bool),
        "truncated": torch.zeros(ENVS, dtype=torch.bool),
    }
    for seed in range(SLOTS):
        library.store(quiet, ENVS * seed + torch.arange(ENVS))
    external = library.memory.episodes.external
    assert list(external.running) == [*range((ENVS - 1) * SLOTS, ENVS * SLOTS)]
    for _ in range(SLOTS):
        library.store(quiet, torch.zeros(ENVS, dtype=torch.int64))
    assert external.running[0].steps == ENVS * SLOTS
    assert len(external.running[0].members) <= 2 * SLOTS


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("members", torch.tensor([[0, 99, 1]])),
        ("members", torch.tensor([[7, 1, 1]])),
        ("members", torch.zeros(1, 2, dtype=torch.int64)),
        ("total", torch.tensor([torch.nan], dtype=torch.float64)),
        ("steps", torch.tensor([[0, -1]])),
        ("total", torch.zeros(2, dtype=torch.float64)),
    ],
)
def test_impossible_episodes_of_a_file_are_refused(name: str, value: torch.Tensor) -> None:
    episodes = ExternalEpisodes(8)
    episodes.add(0, 3, 5, 1.0, 0.9)
    episodes.refuse_impossible(episodes.state())
    with pytest.raises(CheckpointError, match="running episodes: wanted"):
        episodes.refuse_impossible({**episodes.state(), f"{PREFIX}{name}": value})
