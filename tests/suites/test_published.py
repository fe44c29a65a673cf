"""Published benchmarks whose environments crash, hang or return NaN, and runs of them that are killed."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from crystalrl.study.execution import execute
from crystalrl.study.store import Store
from crystalrl.suites.gym import GymSuite
from crystalrl.suites.sizes import sizes_of
from crystalrl.suites.tasks import Sequence
from tests.study.test_checkpoints import killed_and_resumed
from tests.suites.policies import random_action
from tests.suites.published import group_of, shortened

SHORT = {
    "mw-1": {"steps": 20},
    "mujoco-6": {"max_episode_steps": 20},
    "atari-5": {"frames": 80},
}
SAID = {"crash": "crashed with exit code 9", "hang": "hung", "nan": "reward: wanted finite numbers, got nan"}
slow = pytest.mark.slow


def faulty(name: str) -> Sequence:
    (task,) = shortened(name, [0], **SHORT[name]).tasks
    return Sequence([replace(task, wrappers=("tests.suites.bad_environments:Faulty",))])


@pytest.mark.parametrize(
    ("name", "how"),
    [
        (name, how) if (name, how) == ("mujoco-6", "crash") else pytest.param(name, how, marks=slow)
        for name in SHORT
        for how in SAID
    ],
)
def test_an_environment_that_fails_is_reported_and_only_nan_ends_its_lane(
    name: str, how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAULTY", how)
    monkeypatch.setenv("BAD_FILE", str(tmp_path / "done"))
    own = faulty(name)
    made = GymSuite([own.tasks], sizes_of(own.tasks[0]), [0], workers=1)
    world, random = made.world(1), torch.Generator().manual_seed(0)
    world.reset(torch.tensor([0]))
    world.pool.timeout = 5.0
    steps = [world.step(random_action(made, 1, 1, random)) for _ in range(6)]
    (incident,) = world.incidents
    assert incident.what.startswith(SAID[how])
    assert (incident.step, incident.fatal) == (3, how == "nan")
    assert all(torch.isfinite(step.next_obs.float()).all() for step in steps)


@slow
@pytest.mark.parametrize("name", SHORT)
def test_a_learner_whose_environment_returns_nan_fails_with_its_name(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAULTY", "nan")
    group = group_of(faulty(name), agent="rainbow" if name == "atari-5" else "sac")
    store = Store(tmp_path / "out", "")
    list(execute([group], store))
    (failure,) = store.failures()
    assert "got nan" in failure["what"]
    assert not store.has(group.key)


RUN = "--capacity 300 --batch 16 --warmup 40 --episodes 1 --points 1 --agent-params.width 16"
LINES = {
    "mw-1": f"run mw-1 --agent sac --steps 400 {RUN}",
    "mujoco": f"run gym:Hopper-v5 --agent sac --steps 800 {RUN}",
}


@slow
@pytest.mark.parametrize("name", LINES)
def test_kill_nine_changes_nothing(name: str, tmp_path: Path) -> None:
    killed_and_resumed(LINES[name], 8, tmp_path)
