"""Rows about single experiences: those of the first seed of every cell."""

from pathlib import Path

import numpy as np
import pytest
import torch

from crystalrl import CrystalMemory, Transition
from crystalrl.study.contents import Contents
from crystalrl.study.details import WIDEST, actions, arrival, states, vectors
from crystalrl.study.execution import execute
from crystalrl.study.plan import plan
from crystalrl.study.run import Consolidated, Event
from crystalrl.study.spec import RunSpec
from crystalrl.study.store import Store, read, read_details

SMALL = {"suite": "nav-2", "steps": 160, "capacity": 64, "batch": 16, "episodes": 2, "points": 1}


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Event]]:
    """A run with two seeds, and its events."""
    folder = tmp_path_factory.mktemp("details")
    spec = RunSpec(memory="crystal", seeds=(3, 5), params={"every": 80, "time_unit": 80}, **SMALL)
    return folder, [event for _, event in execute(plan({"row": spec}), Store(folder, ""))]


def test_the_histogram_of_every_consolidation_is_stored(ran: tuple[Path, list[Event]]) -> None:
    folder, events = ran
    told = [event for event in events if isinstance(event, Consolidated)]
    stored = read_details(folder, "histograms", [])
    assert set(stored["seed"].tolist()) == {3}
    for event in told:
        mine = stored["step"] == event.done
        counts = np.zeros((3, 10), int)
        counts[stored["phase"][mine] - 1, stored["bin"][mine]] = stored["count"][mine]
        np.testing.assert_array_equal(counts, event.histogram[0])
    memory = read(folder, "memory")
    last = (memory["seed"] == 3) & (memory["step"] == told[-1].done)
    assert counts.sum() == sum(memory[phase][last][0] for phase in ("liquid", "glass", "crystal"))


def test_followed_slots_are_stored_with_the_task_in_which_their_experience_arrived(
    ran: tuple[Path, list[Event]],
) -> None:
    folder, events = ran
    stored = read_details(folder, "followed", [])
    last = next(event for event in reversed(events) if isinstance(event, Consolidated))
    mine = stored["step"] == last.done
    held = last.followed["phase"][0] > 0
    for name in ("slot", "number", "c", "utility", "novelty"):
        np.testing.assert_allclose(stored[name][mine], last.followed[name][0][held], rtol=1e-6)
    assert set(stored["arrived"][mine].tolist()) <= {0, 1}
    np.testing.assert_array_equal(stored["arrived"], stored["number"] // 160)


def test_contents_at_the_end_of_every_task_are_stored_with_their_observations(ran: tuple[Path, list[Event]]) -> None:
    folder, events = ran
    stored = read_details(folder, "contents", [])
    told = [event for event in events if isinstance(event, Contents)]
    assert [event.done for event in told] == sorted(set(stored["step"].tolist())) == [160, 320]
    for event in told:
        mine = stored["step"] == event.done
        np.testing.assert_array_equal(stored["reward"][mine], event.experiences[0]["reward"])
        found = np.stack([stored[f"v{k}"][mine] for k in range(event.experiences[0]["obs"].shape[1])], 1)
        np.testing.assert_array_equal(found, event.experiences[0]["obs"])
        np.testing.assert_array_equal(stored["a0"][mine], event.experiences[0]["action"])


def test_memories_without_phases_store_no_details(tmp_path: Path) -> None:
    list(execute(plan({"row": RunSpec(seeds=(0,), **SMALL)}), Store(tmp_path, "")))
    assert read_details(tmp_path, "contents", []) == {}
    assert not (tmp_path / "followed.parquet").exists()


def test_long_observations_are_projected_always_in_the_same_way() -> None:
    frames = np.random.default_rng(1).random((5, 8, 8))
    first, second = vectors(frames), vectors(frames)
    assert list(first) == [f"v{k}" for k in range(WIDEST)]
    assert all((first[name] == second[name]).all() for name in first)
    short = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.testing.assert_array_equal(np.stack(list(vectors(short).values()), 1), short)


def test_the_number_of_an_experience_tells_when_it_arrived() -> None:
    (group,) = plan({"row": RunSpec("nav-3", steps=80, order=1)})
    stages = list(group.lanes[0].stages)
    numbers = np.array([0, 79, 80, 239, 240, 999])
    assert arrival(group, 0, numbers).tolist() == [stages[0], stages[0], stages[1], *[stages[2]] * 3]


def test_actions_are_stored_discrete_and_with_several_numbers() -> None:
    assert actions(torch.tensor([3, 0]))["a0"].tolist() == [3, 0]
    box = actions(torch.tensor([[0.5, -1.0], [0.25, 2.0]]))
    assert {name: column.tolist() for name, column in box.items()} == {"a0": [0.5, 0.25], "a1": [-1.0, 2.0]}
    assert actions(torch.zeros(2, WIDEST + 1)) == {}


def test_a_state_has_the_value_that_the_agent_gave_and_none_without_an_agent() -> None:
    memory = CrystalMemory(8, obs=(2,), action=2, seed=0)
    for _ in range(8):
        memory.add(Transition(torch.zeros(2), 0, 0.0, torch.zeros(2), False, False))
    found = memory.inspected(0, 8)
    value = torch.rand(8)
    np.testing.assert_array_equal(states({**found, "value": value})["value"], value)
    assert np.isnan(states(found)["value"]).all()


def test_a_damaged_part_is_left_out_and_named(ran: tuple[Path, list[Event]], tmp_path: Path) -> None:
    import shutil

    folder = tmp_path / "copy"
    shutil.copytree(ran[0], folder)
    next((folder / "contents.parquet").iterdir()).write_bytes(b"damaged")
    problems: list[str] = []
    assert read_details(folder, "contents", problems) == {}
    assert "wanted a whole part" in problems[0]
